-- What is counted, and prices for it.

create table meters (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  archived_at timestamptz(3),
  name text not null,
  unit text not null check (unit in ('scalar', 'token', 'custom')),
  custom_label text,
  custom_multiplier integer check (custom_multiplier > 0),
  filter jsonb not null,
  aggregation jsonb not null,
  metadata jsonb not null,
  primary key (organization_id, id),
  check (unit <> 'custom' or custom_label is not null)
);
create index meters_created on meters (organization_id, created_at, id);
create index meters_name on meters (organization_id, name, id);
grant select, insert, update on meters to bursar_api;
grant select on meters to bursar_worker;

alter table product_prices add column meter_id uuid;
alter table product_prices add column unit_amount text check (unit_amount ~ '^\d{1,5}(\.\d{1,12})?$');
alter table product_prices add column cap_amount bigint check (cap_amount >= 0);
alter table product_prices add constraint product_prices_meter foreign key (organization_id, meter_id) references meters (organization_id, id);
alter table product_prices add constraint product_prices_metered
  check ((amount_type = 'metered_unit') = (meter_id is not null) and (amount_type = 'metered_unit') = (unit_amount is not null));
create index product_prices_meter on product_prices (organization_id, meter_id) where meter_id is not null;
