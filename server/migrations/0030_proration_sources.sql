-- Which lines billed the time that a plan or seat change gives back. A credit names its source, so that a refund or a lost
-- dispute of that source reduces the credit, or takes it back.

-- A charge of a change: what the rest of a period costs from the moment of the change on. The line of a period's own order
-- needs no row here.
create table proration_charges (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  -- The order in which changes were made. Several can have the same business time.
  place bigint generated always as identity,
  subscription_id uuid not null,
  -- The period that the charge belongs to.
  period_start timestamptz(3) not null,
  product_price_id uuid not null,
  -- After its discount, as the line says it.
  amount bigint not null check (amount > 0),
  -- The entry that waits for an order, or the order of the change. Neither: another system billed it, before an import.
  entry_id uuid,
  order_id uuid,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, product_price_id) references product_prices (organization_id, id),
  foreign key (organization_id, entry_id) references billing_entries (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  check (entry_id is null or order_id is null)
);
create index proration_charges_period on proration_charges (organization_id, subscription_id, period_start);
create index proration_charges_price on proration_charges (organization_id, product_price_id);
create index proration_charges_entry on proration_charges (organization_id, entry_id);
create index proration_charges_order on proration_charges (organization_id, order_id);
grant select, insert, delete on proration_charges to bursar_api, bursar_worker;

-- A credit of a change, by source.
create table proration_credits (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  subscription_id uuid not null,
  period_start timestamptz(3) not null,
  product_price_id uuid not null,
  label text not null,
  -- The share of the unused time.
  amount bigint not null check (amount > 0),
  -- Of this amount, what was not given or was taken back, because the money of the source went back.
  withheld_amount bigint not null check (withheld_amount between 0 and amount),
  -- The source: the order of the period, or an earlier charge.
  source_order_id uuid,
  source_charge_id uuid,
  -- The entry or the order that says the credit. Neither: all of it is withheld.
  entry_id uuid,
  order_id uuid,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, product_price_id) references product_prices (organization_id, id),
  foreign key (organization_id, source_order_id) references orders (organization_id, id),
  foreign key (organization_id, source_charge_id) references proration_charges (organization_id, id),
  foreign key (organization_id, entry_id) references billing_entries (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  check ((source_order_id is null) <> (source_charge_id is null)),
  check (entry_id is null or order_id is null)
);
create index proration_credits_period on proration_credits (organization_id, subscription_id, period_start);
create index proration_credits_price on proration_credits (organization_id, product_price_id);
create index proration_credits_source_order on proration_credits (organization_id, source_order_id);
create index proration_credits_source_charge on proration_credits (organization_id, source_charge_id);
create index proration_credits_entry on proration_credits (organization_id, entry_id);
create index proration_credits_order on proration_credits (organization_id, order_id);
grant select, insert, delete on proration_credits to bursar_api, bursar_worker;
grant update (withheld_amount, entry_id) on proration_credits to bursar_api, bursar_worker;

-- An entry that waits is reduced or removed with its credit.
grant update (amount), delete on billing_entries to bursar_api, bursar_worker;

-- Changes that were made in the periods under way.
insert into proration_charges (organization_id, id, created_at, subscription_id, period_start, product_price_id, amount, entry_id, order_id)
select c.organization_id, gen_random_uuid(), c.created_at, c.subscription_id, s.current_period_start, c.product_price_id, c.amount, c.entry_id, c.order_id
from (
  select organization_id, created_at, subscription_id, product_price_id, amount, id as entry_id, null::uuid as order_id, position from billing_entries
  union all
  select o.organization_id, o.created_at, o.subscription_id, i.product_price_id, i.amount - i.discount_amount, null, o.id, i.position
  from orders o join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
  where o.billing_reason = 'subscription_update' and o.checkout_id is null and o.status in ('pending', 'paid', 'partially_refunded', 'refunded')
) c
join subscriptions s on s.organization_id = c.organization_id and s.id = c.subscription_id
where c.amount > 0 and c.product_price_id is not null and s.ended_at is null and c.created_at >= s.current_period_start
order by c.created_at, c.position;

-- Each credit comes from the last charge of its price before it, or else from the order of the period.
insert into proration_credits
  (organization_id, id, created_at, subscription_id, period_start, product_price_id, label, amount, withheld_amount, source_order_id, source_charge_id, entry_id, order_id)
select c.organization_id, gen_random_uuid(), c.created_at, c.subscription_id, s.current_period_start, c.product_price_id, c.label, -c.amount, 0,
  case when charge.id is null then period.id end, charge.id, c.entry_id, c.order_id
from (
  select organization_id, created_at, subscription_id, product_price_id, label, amount, id as entry_id, null::uuid as order_id from billing_entries
  union all
  select o.organization_id, o.created_at, o.subscription_id, i.product_price_id, i.label, i.amount - i.discount_amount, null, o.id
  from orders o join order_items i on i.organization_id = o.organization_id and i.order_id = o.id
  where o.billing_reason = 'subscription_update' and o.checkout_id is null and o.status in ('pending', 'paid', 'partially_refunded', 'refunded')
) c
join subscriptions s on s.organization_id = c.organization_id and s.id = c.subscription_id
left join lateral (
  select p.id from proration_charges p
  where p.organization_id = c.organization_id and p.subscription_id = c.subscription_id and p.product_price_id = c.product_price_id and p.created_at < c.created_at
  order by p.place desc limit 1
) charge on true
left join lateral (
  select o.id from orders o
  where o.organization_id = c.organization_id and o.subscription_id = c.subscription_id and o.period_start = s.current_period_start
    and o.status in ('paid', 'partially_refunded', 'refunded')
  limit 1
) period on true
where c.amount < 0 and c.product_price_id is not null and s.ended_at is null and c.created_at >= s.current_period_start
  and coalesce(charge.id, period.id) is not null;

call note_changes_of('proration_charges', 'proration_credits');
