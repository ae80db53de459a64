-- Accounts with a processor that is somebody else's: what opens them is sealed, and never shown again.
alter table payment_accounts
  add column key_sealed text,
  add column key_hint text,
  add column webhook_hint text,
  add column publishable_key text,
  add column processor_account_id text,
  add check ((processor = 'stripe') = (key_sealed is not null and key_hint is not null and publishable_key is not null and processor_account_id is not null));
-- Connected again, an account is the same one: what was charged with it can be given back.
create unique index payment_accounts_processor on payment_accounts (organization_id, processor, processor_account_id) where processor_account_id is not null;
grant update (modified_at, secret_sealed, key_sealed, key_hint, webhook_hint, publishable_key, is_default) on payment_accounts to bursar_api;

-- What the processor of an account calls a customer, where it keeps customers of its own.
create table processor_customers (
  organization_id uuid not null,
  account_id uuid not null,
  customer_id uuid not null,
  created_at timestamptz(3) not null,
  processor_customer_id text not null,
  primary key (organization_id, account_id, customer_id),
  foreign key (organization_id, account_id) references payment_accounts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create index processor_customers_customer on processor_customers (organization_id, customer_id);
grant select, insert on processor_customers to bursar_api, bursar_worker;
