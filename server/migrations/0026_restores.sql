-- A database that was restored from a backup knows nothing of what came after it; a processor does. Until that is
-- looked up, nobody serves from it.
-- `if not exists`: restoring an older backup has to hold it before it can be brought to this version.
alter table deployment add column if not exists restored_to timestamptz(3), add column if not exists held_at timestamptz(3);

-- What a processor has charged and this database knows nothing of. When the same is to be charged again, it is taken
-- for that instead.
create table stray_charges (
  organization_id uuid not null,
  account_id uuid not null,
  intent_id text not null,
  found_at timestamptz(3) not null,
  customer_id uuid not null,
  amount bigint not null check (amount > 0),
  currency text not null,
  -- Why it was charged, as far as the processor was told.
  trigger text,
  charged_at timestamptz(3),
  -- The attempt that was settled with it.
  payment_id uuid,
  -- When somebody has seen to it.
  settled_at timestamptz(3),
  primary key (organization_id, account_id, intent_id),
  foreign key (organization_id, account_id) references payment_accounts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create index stray_charges_customer on stray_charges (organization_id, customer_id) where settled_at is null;
create index stray_charges_of on stray_charges (organization_id, customer_id);
grant select, update on stray_charges to bursar_api;
grant select, insert, update on stray_charges to bursar_worker;
