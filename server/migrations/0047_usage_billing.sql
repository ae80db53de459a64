-- Usage is billed in periods of a metered price. A period is billed by difference: an order line bills the amount of the
-- period minus the amount that earlier lines have billed.

-- The times in which a subscription is billed for usage on a meter. A period contains its start and not its end, by the time of the
-- events. The periods of a customer on a meter never overlap.
create table usage_periods (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  subscription_id uuid not null,
  customer_id uuid not null,
  meter_id uuid not null,
  price_id uuid not null,
  -- The price as it was when the period began. Later usage of this period is billed at this price too.
  unit_amount text not null,
  cap_amount bigint,
  currency text not null,
  -- The start of the billing period of the subscription. Credits without rollover are given for one billing period.
  billing_start timestamptz(3) not null,
  starts_at timestamptz(3) not null,
  -- Null while the period is open.
  ends_at timestamptz(3) check (ends_at >= starts_at),
  closed_at timestamptz(3),
  -- The quantity and the amount that order lines have billed so far.
  billed_quantity numeric not null default 0,
  billed_amount bigint not null default 0,
  -- The units of credits that the billed quantity has used.
  credited_units numeric not null default 0 check (credited_units >= 0),
  -- True if the usage may differ from the billed quantity. The next order of the subscription bills the difference.
  is_unsettled boolean not null default false,
  -- When the last order after the end of the subscription was made. Later usage is not billed any more.
  final_at timestamptz(3),
  unbilled_quantity numeric not null default 0,
  unbilled_amount bigint not null default 0,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, price_id) references product_prices (organization_id, id),
  foreign key (organization_id, clock_id) references test_clocks (organization_id, id),
  check ((ends_at is null) = (closed_at is null)),
  check (ends_at is not null or (not is_unsettled and final_at is null and due_at is null))
);
-- One subscription of a customer is billed for a meter at a time: the first that has a price on it.
create unique index usage_periods_open on usage_periods (organization_id, customer_id, meter_id) where ends_at is null;
create index usage_periods_customer on usage_periods (organization_id, customer_id, meter_id, starts_at);
create index usage_periods_subscription on usage_periods (organization_id, subscription_id, starts_at);
create index usage_periods_waiting on usage_periods (organization_id, subscription_id) where ends_at is null or is_unsettled;
create index usage_periods_meter on usage_periods (organization_id, meter_id, ends_at) where final_at is null;
create index usage_periods_price on usage_periods (organization_id, price_id);
create index usage_periods_due on usage_periods (due_at) where due_at is not null and clock_id is null;
create index usage_periods_clock on usage_periods (organization_id, clock_id, due_at) where clock_id is not null;
create index usage_periods_unbilled on usage_periods (organization_id, ends_at) where unbilled_amount <> 0;
grant select, insert, update on usage_periods to bursar_api, bursar_worker;

-- The order lines of usage, as differences. If an order is voided, its differences are taken back.
create table usage_settlements (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  period_id uuid not null,
  order_id uuid not null,
  quantity numeric not null,
  -- The difference of the amount before discounts.
  amount bigint not null,
  -- The amount of the order line after discounts. A credit never exceeds what earlier lines have charged, so it may be smaller.
  charged_amount bigint not null,
  voided_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, period_id) references usage_periods (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id)
);
create index usage_settlements_order on usage_settlements (organization_id, order_id);
create index usage_settlements_period on usage_settlements (organization_id, period_id);
grant select, insert, update (voided_at) on usage_settlements to bursar_api, bursar_worker;

-- The credits that apply to a period, and the units of each that its usage has used. The rows are made when the period ends.
create table usage_credit_uses (
  organization_id uuid not null,
  period_id uuid not null,
  credit_id uuid not null,
  units numeric not null default 0 check (units >= 0),
  primary key (organization_id, period_id, credit_id),
  foreign key (organization_id, period_id) references usage_periods (organization_id, id),
  foreign key (organization_id, credit_id) references meter_credits (organization_id, id)
);
create index usage_credit_uses_credit on usage_credit_uses (organization_id, credit_id);
grant select, insert, update on usage_credit_uses to bursar_api, bursar_worker;

call note_changes_of('usage_settlements');

-- The first settled quantity of a meter fixes its filter and its aggregation.
grant update (billed_at) on meters to bursar_api, bursar_worker;

-- True for totals of the backfill. They count events that settlements have already read, so they are no late usage.
alter table usage_quarters add column is_backfilled boolean not null default false;

-- Begins a version of a meter, like before. An archived meter does not stop while late usage of a period may still be billed: the period
-- is open, it waits for the last order, or it ended in the last 35 days. Late usage of a stopped meter would not mark its period.
create or replace function begin_counting() returns trigger language plpgsql as $$
declare
  stops boolean;
begin
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation and (new.archived_at is null) = (old.archived_at is null) then
    return null;
  end if;
  perform hold_meters(new.organization_id, true);
  stops := new.archived_at is not null and not exists (
    select from product_prices r
    join subscription_prices b on b.organization_id = r.organization_id and b.price_id = r.id
    join subscriptions s on s.organization_id = b.organization_id and s.id = b.subscription_id and s.ended_at is null
    where r.organization_id = new.organization_id and r.meter_id = new.id)
    and not exists (
      select from usage_periods p where p.organization_id = new.organization_id and p.meter_id = new.id and p.final_at is null
        and (p.ends_at is null or p.due_at is not null or p.ends_at > coalesce(new.modified_at, new.created_at) - interval '35 days'));
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation
    and exists (select from usage_meters u where u.organization_id = new.organization_id and u.id = new.id and u.is_stopped = stops) then
    return null;
  end if;
  insert into usage_meters (organization_id, id, version, before_batch, until_event, is_stopped, due_at)
  values (new.organization_id, new.id, 1, nextval(pg_get_serial_sequence('usage_batches', 'number')), last_usage_event(new.organization_id), stops,
    coalesce(new.modified_at, new.created_at))
  on conflict (organization_id, id) do update set
    version = usage_meters.version + 1, before_batch = excluded.before_batch, after_event = null, until_event = excluded.until_event, counted_at = null,
    is_stopped = excluded.is_stopped, due_at = excluded.due_at;
  return null;
end
$$;

-- Locks the usage of a customer until the transaction ends. Its periods are opened, ended and settled by one transaction at a time,
-- because they share credits and must not overlap. Take this lock first, then those of meters, then those of periods by their ids.
create function hold_usage(organization uuid, customer uuid) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('usage of customer ' || organization || ' ' || customer, 0));
end
$$;

-- Usage of a subject that gets a customer counts for this customer, also in periods that have ended. The first statement locks the
-- periods of all linked subjects by their ids. It waits for a settlement that is just closing a period. The second sees it closed.
create function unsettle_linked_periods() returns trigger language plpgsql as $$
declare
  overlapping uuid[];
begin
  select array_agg(locked.id) into overlapping from (
    select p.id from usage_periods p
    join (
      select n.organization_id, shown.customer_id, q.meter_id, min(q.starts_at) as first, max(q.starts_at) + interval '15 minutes' as last
      from linked n join unlinked o on o.organization_id = n.organization_id and o.id = n.id and o.customer_id is null
      join usage_quarters q on q.organization_id = n.organization_id and q.subject_id = n.id
      cross join lateral shown_customers(n.organization_id, n.customer_id) shown (customer_id) group by 1, 2, 3
    ) spans on spans.organization_id = p.organization_id and spans.customer_id = p.customer_id and spans.meter_id = p.meter_id
      and p.starts_at < spans.last and (p.ends_at is null or p.ends_at > spans.first)
    order by p.organization_id, p.id for no key update of p) locked;
  update usage_periods p set is_unsettled = true, due_at = case when p.final_at is null then p.due_at else
    coalesce((select k.now_at from test_clocks k where k.organization_id = p.organization_id and k.id = p.clock_id), clock_timestamp()) end
  where p.organization_id in (select n.organization_id from linked n) and p.id = any(overlapping) and p.ends_at is not null;
  return null;
end
$$;
create trigger usage_subjects_unsettle after update on usage_subjects
  referencing old table as unlinked new table as linked for each statement execute function unsettle_linked_periods();

-- A credit may be given after its billing period has ended, for example if a renewal is paid late. It still applies to this period, whose
-- usage may have been billed. The locks come before the second look: a settlement that is just ending the period has then committed.
create function attach_late_credits() returns trigger language plpgsql as $$
declare
  ended uuid[];
begin
  perform hold_usage(credited.organization_id, credited.customer_id) from (
    select distinct a.organization_id, p.customer_id from added a
    join benefit_grants g on g.organization_id = a.organization_id and g.id = a.grant_id
    join usage_periods p on p.organization_id = g.organization_id and p.subscription_id = g.subscription_id and p.meter_id = a.meter_id
      and p.billing_start = a.period_start
    order by 1, 2) credited;
  if not found then
    return null;
  end if;
  select array_agg(locked.id) into ended from (
    select p.id from usage_periods p
    where p.organization_id in (select a.organization_id from added a) and p.id in (
        select o.id from added a join benefit_grants g on g.organization_id = a.organization_id and g.id = a.grant_id
        join usage_periods o on o.organization_id = g.organization_id and o.subscription_id = g.subscription_id and o.meter_id = a.meter_id
          and o.billing_start = a.period_start)
      and p.ends_at is not null
    order by p.organization_id, p.id for no key update of p) locked;
  insert into usage_credit_uses (organization_id, period_id, credit_id)
  select p.organization_id, p.id, a.id from added a join benefit_grants g on g.organization_id = a.organization_id and g.id = a.grant_id
  join usage_periods p on p.organization_id = g.organization_id and p.subscription_id = g.subscription_id and p.meter_id = a.meter_id
    and p.billing_start = a.period_start
  where p.id = any(ended) on conflict do nothing;
  update usage_periods p set is_unsettled = true,
    due_at = case when p.final_at is null then p.due_at else (select max(a.created_at) from added a where a.organization_id = p.organization_id) end
  where p.organization_id in (select a.organization_id from added a) and p.id = any(ended);
  return null;
end
$$;
create trigger meter_credits_settle after insert on meter_credits referencing new table as added for each statement execute function attach_late_credits();

-- Subscriptions that exist already. Their usage is billed from the start of the current period on.
insert into usage_periods
  (organization_id, id, created_at, subscription_id, customer_id, meter_id, price_id, unit_amount, cap_amount, currency, billing_start, starts_at, clock_id)
select distinct on (s.organization_id, s.customer_id, r.meter_id)
  s.organization_id, gen_random_uuid(), now(), s.id, s.customer_id, r.meter_id, r.id, r.unit_amount, r.cap_amount, s.currency,
  s.current_period_start, s.current_period_start, s.clock_id
from subscriptions s
join subscription_prices b on b.organization_id = s.organization_id and b.subscription_id = s.id
join product_prices r on r.organization_id = b.organization_id and r.id = b.price_id and r.meter_id is not null
where s.status in ('active', 'past_due')
order by s.organization_id, s.customer_id, r.meter_id, s.created_at, s.id, b.position;
