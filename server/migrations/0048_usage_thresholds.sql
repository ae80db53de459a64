-- The limits of a customer's usage on a meter, and the highest threshold of each that was announced in its last period.

create table usage_thresholds (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  customer_id uuid not null,
  meter_id uuid not null,
  -- `credits`: units of credits. `cap`: the cap of a metered price.
  basis text not null check (basis in ('credits', 'cap')),
  -- The price with the cap. Null for credits.
  price_id uuid,
  subscription_id uuid,
  -- The start of the period that the threshold was reached in. Null if all usage counts.
  period_start timestamptz(3),
  period_end timestamptz(3),
  -- The highest threshold that was reached in the period, in percent.
  percent smallint not null check (percent in (0, 50, 80, 100)),
  -- Units for credits, minor units of the currency for a cap.
  consumed numeric not null,
  limit_amount numeric not null check (limit_amount > 0),
  currency text,
  reached_at timestamptz(3) not null,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, price_id) references product_prices (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  check ((basis = 'cap') = (price_id is not null) and (basis = 'cap') = (currency is not null))
);
create unique index usage_thresholds_limit on usage_thresholds (organization_id, customer_id, meter_id, basis, price_id) nulls not distinct;
create index usage_thresholds_price on usage_thresholds (organization_id, price_id) where price_id is not null;
create index usage_thresholds_subscription on usage_thresholds (organization_id, subscription_id) where subscription_id is not null;
grant select on usage_thresholds to bursar_api;
grant select, insert, update on usage_thresholds to bursar_worker;

call note_changes_of('usage_thresholds');
