-- What is taken off, for whom, for how long.

create table discounts (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  type text not null check (type in ('fixed', 'percentage')),
  duration text not null check (duration in ('once', 'forever', 'repeating')),
  duration_in_months integer check (duration_in_months between 1 and 999),
  amounts jsonb,
  basis_points integer check (basis_points between 1 and 10000),
  name text not null,
  code text check (code ~ '^[A-Za-z0-9]+$' and length(code) between 3 and 256),
  starts_at timestamptz(3),
  ends_at timestamptz(3),
  max_redemptions integer check (max_redemptions >= 1),
  max_redemptions_per_customer integer check (max_redemptions_per_customer >= 1),
  redemptions_count integer not null default 0 check (redemptions_count >= 0),
  metadata jsonb not null,
  primary key (organization_id, id),
  check ((type = 'fixed') = (amounts is not null)),
  check ((type = 'percentage') = (basis_points is not null)),
  check ((duration = 'repeating') = (duration_in_months is not null)),
  check (starts_at < ends_at)
);
-- A code names one living discount, however it is written.
create unique index discounts_code on discounts (organization_id, lower(code)) where deleted_at is null and code is not null;
create index discounts_created on discounts (organization_id, created_at, id) where deleted_at is null;
create index discounts_name on discounts (organization_id, name, id) where deleted_at is null;
grant select, insert, update on discounts to bursar_api;
grant select on discounts to bursar_worker;

-- The products it counts for; none listed means every one.
create table discount_products (
  organization_id uuid not null,
  discount_id uuid not null,
  product_id uuid not null,
  position integer not null,
  primary key (organization_id, discount_id, product_id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id)
);
create index discount_products_product on discount_products (organization_id, product_id);
grant select, insert, delete on discount_products to bursar_api;
grant select on discount_products to bursar_worker;
