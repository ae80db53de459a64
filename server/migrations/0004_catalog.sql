-- What is sold, and how many of it there are.

-- How many rows a growing collection has: what came and went, added up when asked. Only ever appended to by those who
-- write, so that two of them never wait for each other; a chore folds many rows into one.
create table collection_deltas (
  organization_id uuid not null references organizations (id),
  collection text not null,
  delta bigint not null
);
create index collection_deltas_sum on collection_deltas (organization_id, collection) include (delta);
grant select, insert on collection_deltas to bursar_api, bursar_worker;
grant delete on collection_deltas to bursar_worker;

create function count_rows() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into collection_deltas select organization_id, tg_argv[0], count(*) from changed group by organization_id;
  else
    insert into collection_deltas select organization_id, tg_argv[0], -count(*) from changed group by organization_id;
  end if;
  return null;
end
$$;

create table products (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  name text not null,
  description text,
  visibility text not null check (visibility in ('draft', 'private', 'public')),
  recurring_interval text check (recurring_interval in ('day', 'week', 'month', 'year')),
  recurring_interval_count integer check (recurring_interval_count between 1 and 999),
  trial_interval text check (trial_interval in ('day', 'week', 'month', 'year')),
  trial_interval_count integer check (trial_interval_count between 1 and 1000),
  meter_interval text check (meter_interval in ('day', 'week', 'month', 'year')),
  meter_interval_count integer check (meter_interval_count between 1 and 999),
  is_archived boolean not null,
  metadata jsonb not null,
  -- The first price that is not metered, for sorting.
  price_amount_type text not null,
  price_amount bigint not null,
  primary key (organization_id, id),
  check ((recurring_interval is null) = (recurring_interval_count is null)),
  check ((trial_interval is null) = (trial_interval_count is null))
);
create index products_created on products (organization_id, created_at, id);
create index products_name on products (organization_id, name, id);
create index products_price on products (organization_id, price_amount, id);
create index products_price_type on products (organization_id, price_amount_type, id);
create index products_archived on products (organization_id, is_archived, created_at, id);
create index products_visibility on products (organization_id, visibility, created_at, id);
create trigger products_come after insert on products referencing new table as changed for each statement execute function count_rows('products');
create trigger products_go after delete on products referencing old table as changed for each statement execute function count_rows('products');
grant select, insert, update, delete on products to bursar_api;
grant select on products to bursar_worker;

-- A price never changes: it is archived and replaced.
create table product_prices (
  organization_id uuid not null,
  id uuid not null,
  product_id uuid not null,
  position integer not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  source text not null check (source in ('catalog', 'ad_hoc')),
  amount_type text not null check (amount_type in ('fixed', 'custom', 'seat_based', 'metered_unit')),
  price_currency text not null check (price_currency ~ '^[a-z]{3}$'),
  tax_behavior text check (tax_behavior in ('location', 'inclusive', 'exclusive')),
  is_archived boolean not null,
  price_amount bigint check (price_amount >= 0),
  minimum_amount bigint check (minimum_amount >= 0),
  maximum_amount bigint check (maximum_amount >= 0),
  preset_amount bigint check (preset_amount >= 0),
  seat_tiers jsonb,
  primary key (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id) on delete cascade,
  check ((amount_type = 'fixed') = (price_amount is not null)),
  check ((amount_type = 'custom') = (minimum_amount is not null)),
  check ((amount_type = 'seat_based') = (seat_tiers is not null))
);
create index product_prices_product on product_prices (organization_id, product_id, position);
grant select, insert, delete on product_prices to bursar_api;
grant update (is_archived, modified_at) on product_prices to bursar_api;
grant select on product_prices to bursar_worker;

create table custom_fields (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  type text not null check (type in ('text', 'number', 'date', 'checkbox', 'select')),
  slug text not null,
  name text not null,
  properties jsonb not null,
  metadata jsonb not null,
  primary key (organization_id, id)
);
create unique index custom_fields_slug on custom_fields (organization_id, slug) where deleted_at is null;
grant select, insert, update on custom_fields to bursar_api;
grant select on custom_fields to bursar_worker;

create table product_custom_fields (
  organization_id uuid not null,
  product_id uuid not null,
  custom_field_id uuid not null,
  position integer not null,
  required boolean not null,
  primary key (organization_id, product_id, custom_field_id),
  foreign key (organization_id, product_id) references products (organization_id, id) on delete cascade,
  foreign key (organization_id, custom_field_id) references custom_fields (organization_id, id)
);
create index product_custom_fields_field on product_custom_fields (organization_id, custom_field_id);
grant select, insert, delete on product_custom_fields to bursar_api;
grant select on product_custom_fields to bursar_worker;
