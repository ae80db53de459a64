-- What a processor told while nobody listened is read up afterwards: until when everything is known, and when to look next.
alter table payment_accounts
  add column heard_until timestamptz(3),
  add column due_at timestamptz,
  add column clock_id uuid,
  add column lease_until timestamptz,
  add column lease_token uuid,
  add column lease_holder text;
update payment_accounts set heard_until = created_at, due_at = now() where processor = 'stripe';
create index payment_accounts_due on payment_accounts (due_at) where due_at is not null;
grant update (heard_until, due_at, lease_until, lease_token, lease_holder) on payment_accounts to bursar_worker;
grant update (due_at) on payment_accounts to bursar_api;

-- What somebody kept to pay with changes at its processor, and says nothing of them once they are forgotten.
grant update (method_metadata, fingerprint) on payment_methods to bursar_api, bursar_worker;
