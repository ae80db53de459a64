-- The client secret of an expired checkout ends after a week.

delete from credentials where kind = 'checkout' and subject_id in (
  select id from checkouts where status = 'expired' and expires_at <= now() - interval '7 days');
delete from checkout_drafts d using checkouts c
  where c.organization_id = d.organization_id and c.id = d.id and c.status = 'expired' and c.expires_at <= now() - interval '7 days';
-- Checkouts that expired without a draft had no further sweep.
update checkouts set due_at = expires_at + interval '7 days'
  where status = 'expired' and due_at is null and expires_at > now() - interval '7 days';
