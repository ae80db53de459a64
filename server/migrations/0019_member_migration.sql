-- From seat-holding customers to members under a buyer. What is shown changes with one row; what is prepared for it is
-- written here, beside the rows themselves, so that it can be told from what was there before, and taken back.

-- A place that was sold before there were members, to which nobody was invited yet.
alter table seats alter column email drop not null;

-- True: the migration has filled in the member; false: it was there, or is not there yet.
alter table seats add column prepared boolean not null default false;
alter table benefit_grants add column prepared boolean not null default false;
alter table license_keys add column prepared boolean not null default false;
-- True: the migration has made this member.
alter table members add column prepared boolean not null default false;
-- Which marks the migration has set: 1, that it only holds seats; 2, that it is a team.
alter table customers add column prepared smallint not null default 0;
-- When it was said that this customer is gone. It can be undone until the migration is sealed.
alter table customers add column tombstoned_at timestamptz(3);

-- Nobody is given two places of the same pool. What the migration finds may have been so.
drop index seats_of_subscription;
drop index seats_of_order;
create unique index seats_of_subscription on seats (organization_id, subscription_id, member_id) where status <> 'revoked' and subscription_id is not null and not prepared;
create unique index seats_of_order on seats (organization_id, order_id, member_id) where status <> 'revoked' and order_id is not null and not prepared;
drop index benefit_grants_one;
create unique index benefit_grants_one on benefit_grants
  (organization_id, buyer_customer_id, benefit_id, subscription_id, order_id, member_id, holder_customer_id, prepared) nulls not distinct;

-- What is still to be done, and what was done.
create index seats_unprepared on seats (organization_id, id) where member_id is null and status <> 'revoked';
create index seats_prepared on seats (organization_id, id) where prepared;
create index benefit_grants_unprepared on benefit_grants (organization_id, id)
  where member_id is null and holder_customer_id is not null and (is_wanted or granted_at is not null);
create index benefit_grants_prepared on benefit_grants (organization_id, id) where prepared;
create index members_prepared on members (organization_id, id) where prepared;
create index customers_prepared on customers (organization_id, id) where prepared <> 0;
create index customers_tombstones on customers (organization_id, id) where tombstoned_at is not null;

create table member_migrations (
  organization_id uuid not null references organizations (id),
  -- That of the organization.
  id uuid not null check (id = organization_id),
  state text not null check (state in ('before', 'preparing', 'phase1', 'phase2', 'sealed')),
  -- What is under way behind it, how far it has come, and where it goes on.
  work text check (work in ('prepare', 'unprepare', 'tell', 'untell', 'purge')),
  step text not null default '',
  after uuid,
  done bigint not null default 0,
  total bigint not null default 0,
  started_at timestamptz(3),
  prepared_at timestamptz(3),
  switched_at timestamptz(3),
  undone_at timestamptz(3),
  -- When it is sealed by itself.
  seal_at timestamptz(3),
  sealed_at timestamptz(3),
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id)
);
create index member_migrations_due on member_migrations (due_at) where due_at is not null;
grant select, insert, update on member_migrations to bursar_api, bursar_worker;

-- What could not be prepared, or not wholly, and why.
create table member_migration_problems (
  organization_id uuid not null references organizations (id),
  resource text not null check (resource in ('seat', 'grant', 'customer', 'member')),
  id uuid not null,
  problem text not null,
  -- The switch waits until it is gone.
  blocks boolean not null,
  primary key (organization_id, resource, id, problem)
);
grant select, insert, delete on member_migration_problems to bursar_api, bursar_worker;

-- Said because of the migration, to those who want to hear of that.
alter table events add column is_migration boolean not null default false;
alter table webhook_endpoints add column migration_events boolean not null default false;

grant insert, update, delete on members to bursar_worker;
grant delete on members to bursar_api;
grant update (prepared, tombstoned_at, deleted_at, email, name, external_id, metadata, billing_name, billing_address, tax_id, tax_id_format) on customers to bursar_worker;

call note_changes_of('member_migrations');

-- Which member a seat holder becomes: the same however often, and in whatever order, it is worked out.
create function member_id_of(organization_id uuid, customer_id uuid, email text) returns uuid language sql immutable parallel safe as $$
  select overlay(overlay(md5(organization_id::text || customer_id::text || lower(email)) placing '4' from 13) placing 'a' from 17)::uuid
$$;
