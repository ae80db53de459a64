-- The keyed hash of the address in the draft. The erasure of a person finds drafts by it that belong to no customer.
alter table checkout_drafts add column email_hash text;
create index checkout_drafts_email on checkout_drafts (organization_id, email_hash) where email_hash is not null;
