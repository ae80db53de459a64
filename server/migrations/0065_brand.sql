-- The seller's brand: accent colour, and the links to terms and privacy policy. Logo, support address and website have their own columns.

alter table organizations add column brand_settings jsonb not null default '{"accent_color": null, "terms_url": null, "privacy_url": null}'
  check (brand_settings ?& array['accent_color', 'terms_url', 'privacy_url']);
