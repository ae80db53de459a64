-- A buyer can renew an expired checkout. A service outside can check VAT numbers.

-- The expired checkout that this one renews. The unique index allows one successor of a checkout.
alter table checkouts add column renews uuid;
create unique index checkouts_renews on checkouts (organization_id, renews) where renews is not null;
alter table checkouts add foreign key (organization_id, renews) references checkouts (organization_id, id);

-- The result of the check of the buyer's VAT number. Null if it was not checked.
alter table checkouts add column customer_tax_id_status text check (customer_tax_id_status in ('valid', 'unverified'));

-- Answers of the service that checks VAT numbers, by the keyed hash of the number. They are kept for a day. Not in the audit log: a cache.
create table vat_checks (
  hash text primary key,
  status text not null check (status in ('valid', 'invalid', 'unverified')),
  ends_at timestamptz(3) not null
);
create index vat_checks_ends on vat_checks (ends_at);
grant select, insert, update on vat_checks to bursar_api;
grant select, delete on vat_checks to bursar_worker;
