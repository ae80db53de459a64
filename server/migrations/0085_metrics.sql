-- Metrics. Triggers note every fact in the statement that makes it true. A fact is never changed, so a past value stays.

-- A state that held from one moment of business time to another: a subscription at a price, seats of an order, a seat.
create table metric_spans (
  organization_id uuid not null,
  position bigint generated always as identity,
  resource text not null check (resource in ('subscription', 'order', 'seat')),
  resource_id uuid not null,
  -- Of a subscription: 'paid' or 'trial'. Of an order: 'sold'. Of a seat: 'claimed' or 'pending'.
  state text not null check (state in ('paid', 'trial', 'sold', 'claimed', 'pending')),
  -- False for a subscription with a scheduled end.
  is_open boolean not null,
  starts_at timestamptz(3) not null,
  -- Null while the state holds. Set once.
  ends_at timestamptz(3) check (ends_at >= starts_at),
  customer_id uuid not null,
  product_id uuid,
  currency text,
  -- The price for a month, after discounts and without tax.
  amount bigint not null,
  seats integer not null,
  primary key (organization_id, position)
);
create unique index metric_spans_current on metric_spans (organization_id, resource_id) where ends_at is null;
create index metric_spans_start on metric_spans (organization_id, resource, starts_at);
create index metric_spans_customer on metric_spans (organization_id, customer_id, resource, starts_at);

-- What a record adds to a measure at a moment of business time. States are two facts: one at their start, the negative one at their end.
create table metric_facts (
  organization_id uuid not null,
  position bigint generated always as identity,
  measure text not null,
  at timestamptz(3) not null,
  count bigint not null,
  amount bigint not null,
  currency text,
  customer_id uuid,
  product_id uuid,
  resource text not null,
  resource_id uuid not null,
  -- True once metric_quarters contains the fact.
  is_folded boolean not null default false,
  primary key (organization_id, position)
);
create index metric_facts_measure on metric_facts (organization_id, measure, at, position);
create index metric_facts_customer on metric_facts (organization_id, customer_id, measure, at);
create index metric_facts_resource on metric_facts (organization_id, resource_id);
create index metric_facts_unfolded on metric_facts (organization_id, position) where not is_folded;

-- The folded facts of each quarter hour. Offsets of all time zones are multiples of 15 minutes.
create table metric_quarters (
  organization_id uuid not null,
  measure text not null,
  starts_at timestamptz(3) not null,
  product_id uuid,
  currency text,
  count bigint not null,
  amount numeric not null,
  -- The number of folded facts.
  facts bigint not null,
  constraint metric_quarters_key unique nulls not distinct (organization_id, measure, starts_at, product_id, currency)
);

-- Usage events of each subject and quarter hour, and their cost in cents of US dollars. Rows are appended, and merged by a task.
create table metric_usage (
  organization_id uuid not null,
  subject_id uuid not null,
  starts_at timestamptz(3) not null,
  events bigint not null,
  cost numeric not null,
  is_merged boolean not null default false
);
create unique index metric_usage_merged on metric_usage (organization_id, starts_at, subject_id) where is_merged;
create index metric_usage_unmerged on metric_usage (organization_id, starts_at) where not is_merged;
create index metric_usage_subject on metric_usage (organization_id, subject_id, starts_at);

-- Only the triggers write facts. The worker folds them.
grant select on metric_spans, metric_facts, metric_quarters, metric_usage to bursar_api, bursar_worker;
grant update (is_folded) on metric_facts to bursar_worker;
grant insert, update, delete on metric_quarters, metric_usage to bursar_worker;

create table metric_dashboards (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  name text not null check (length(name) between 1 and 256),
  metrics text[] not null check (cardinality(metrics) <= 10),
  primary key (organization_id, id)
);
create index metric_dashboards_created on metric_dashboards (organization_id, created_at, id);
grant select, insert, update, delete on metric_dashboards to bursar_api;
grant select on metric_dashboards to bursar_worker;
call note_changes_of('metric_dashboards');

create function metric_quarter_of(at timestamptz) returns timestamptz language sql immutable strict parallel safe as $$
  select date_bin('15 minutes', at, timestamptz '2000-01-01 00:00:00Z')
$$;

-- The price for a month of a price for each `n` intervals.
create function metric_month_of(amount numeric, every text, n integer) returns bigint language sql immutable strict parallel safe as $$
  select round(case every when 'year' then amount / (12 * n) when 'month' then amount / n when 'week' then amount * 52 / (12 * n) else amount * 365 / (12 * n) end)::bigint
$$;

-- Notes the facts of a span: `sign` is 1 at its start and -1 at its end.
create function note_metric_span(span metric_spans, moment timestamptz, sign integer) returns void language sql set search_path = pg_catalog, public, pg_temp as $$
  insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
  select span.organization_id, f.measure, moment, f.count * sign, f.amount * sign, f.currency, span.customer_id, span.product_id, span.resource, span.resource_id
  from (
    select 'subscriptions.' || span.state || case when span.is_open then '.open' else '.ending' end, 1::bigint, span.amount, span.currency
      where span.resource = 'subscription'
    union all select 'seats.total', span.seats::bigint, 0::bigint, null where span.seats > 0 and span.resource in ('subscription', 'order')
    union all select 'seats.' || span.state, 1::bigint, 0::bigint, null where span.resource = 'seat'
  ) as f (measure, count, amount, currency)
$$;

-- Ends the current span of a record if its state has changed, and begins the next one. The caller has locked the record.
create function follow_metric_span(next metric_spans, is_live boolean, moment timestamptz) returns void language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  held metric_spans;
begin
  select * into held from metric_spans s where s.organization_id = next.organization_id and s.resource_id = next.resource_id and s.ends_at is null;
  if held.resource_id is null and not is_live then
    return;
  end if;
  if held.resource_id is not null then
    if is_live and (held.state, held.is_open, held.customer_id, held.product_id, held.currency, held.amount, held.seats)
      is not distinct from (next.state, next.is_open, next.customer_id, next.product_id, next.currency, next.amount, next.seats) then
      return;
    end if;
    -- Clocks of two processes can differ by some milliseconds.
    moment := greatest(moment, held.starts_at);
    update metric_spans s set ends_at = moment where s.organization_id = held.organization_id and s.position = held.position;
    perform note_metric_span(held, moment, -1);
  end if;
  if is_live then
    insert into metric_spans (organization_id, resource, resource_id, state, is_open, starts_at, customer_id, product_id, currency, amount, seats)
    values (next.organization_id, next.resource, next.resource_id, next.state, next.is_open, moment, next.customer_id, next.product_id, next.currency, next.amount, next.seats);
    perform note_metric_span(next, moment, 1);
  end if;
end
$$;

create function note_metric_flow(organization uuid, measure text, moment timestamptz, n bigint, amount bigint, currency text, customer uuid, product uuid, resource text, id uuid)
  returns void language sql set search_path = pg_catalog, public, pg_temp as $$
  insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
  values (organization, measure, moment, n, amount, currency, customer, product, resource, id)
$$;

-- The price of a subscription for a month: with the discount of its current period, and without a tax that the price includes.
-- The share of the tax is that of its last billed period.
create function metric_monthly(s subscriptions) returns bigint language plpgsql stable set search_path = pg_catalog, public, pg_temp as $$
declare
  price numeric := s.amount;
  discount discounts;
  net numeric;
  gross numeric;
begin
  if coalesce(s.period_discount_id, case when s.status = 'trialing' then s.discount_id end) is not null then
    select * into discount from discounts d
      where d.organization_id = s.organization_id and d.id = coalesce(s.period_discount_id, s.discount_id);
    price := price - least(price, case when discount.type = 'percentage' then round(price * discount.basis_points / 10000)
      else coalesce((discount.amounts ->> s.currency)::numeric, 0) end);
  end if;
  if s.tax_behavior = 'inclusive' then
    select o.net_amount, o.total_amount into net, gross from orders o
      where o.organization_id = s.organization_id and o.subscription_id = s.id and o.billing_reason in ('subscription_create', 'subscription_cycle')
        and o.net_amount > 0 and o.tax_amount >= 0
      order by o.created_at desc, o.id desc limit 1;
    if net is not null then
      price := price * net / gross;
    end if;
  end if;
  return metric_month_of(price, s.recurring_interval, s.recurring_interval_count);
end
$$;

create function follow_subscription_state(s subscriptions, moment timestamptz) returns void language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  next metric_spans;
begin
  next.organization_id := s.organization_id;
  next.resource := 'subscription';
  next.resource_id := s.id;
  next.state := case when s.status = 'trialing' then 'trial' else 'paid' end;
  next.is_open := not s.cancel_at_period_end;
  next.customer_id := s.customer_id;
  next.product_id := s.product_id;
  next.currency := s.currency;
  next.amount := metric_monthly(s);
  next.seats := coalesce(s.seats, 0);
  perform follow_metric_span(next, s.started_at is not null and s.ended_at is null and s.status not in ('incomplete', 'incomplete_expired'), moment);
end
$$;

create function follow_seat_state(s seats, moment timestamptz) returns void language plpgsql set search_path = pg_catalog, public, pg_temp as $$
declare
  next metric_spans;
begin
  next.organization_id := s.organization_id;
  next.resource := 'seat';
  next.resource_id := s.id;
  next.state := case when s.status = 'claimed' then 'claimed' else 'pending' end;
  next.is_open := true;
  next.customer_id := s.buyer_customer_id;
  next.product_id := coalesce(
    (select b.product_id from subscriptions b where b.organization_id = s.organization_id and b.id = s.subscription_id),
    (select o.product_id from orders o where o.organization_id = s.organization_id and o.id = s.order_id));
  next.amount := 0;
  next.seats := 0;
  perform follow_metric_span(next, s.status <> 'revoked', moment);
end
$$;

create function note_subscription_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  is_new boolean := tg_op = 'INSERT';
  changed timestamptz := case when tg_op = 'INSERT' then coalesce(new.started_at, new.created_at) else coalesce(new.modified_at, new.created_at) end;
  reason text := coalesce(new.customer_cancellation_reason, 'other');
begin
  if new.started_at is not null and (is_new or old.started_at is null) then
    perform note_metric_flow(new.organization_id, 'subscriptions.started', new.started_at, 1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if not is_new and old.canceled_at is not null and (new.canceled_at is null or reason <> coalesce(old.customer_cancellation_reason, 'other')) then
    perform note_metric_flow(new.organization_id, 'subscriptions.canceled.' || coalesce(old.customer_cancellation_reason, 'other'), changed, -1, 0, null,
      new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if new.canceled_at is not null and (is_new or old.canceled_at is null or reason <> coalesce(old.customer_cancellation_reason, 'other')) then
    perform note_metric_flow(new.organization_id, 'subscriptions.canceled.' || reason, case when is_new or old.canceled_at is null then new.canceled_at else changed end,
      1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if not is_new and old.ended_at is not null and new.ended_at is null then
    perform note_metric_flow(new.organization_id, 'subscriptions.ended', changed, -1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if new.ended_at is not null and (is_new or old.ended_at is null) then
    perform note_metric_flow(new.organization_id, 'subscriptions.ended', new.ended_at, 1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
    if is_new and new.started_at is not null then
      -- An imported subscription that has ended: its state held until then.
      perform follow_subscription_state(jsonb_populate_record(new, '{"ended_at": null}'), new.started_at);
    end if;
    perform follow_subscription_state(new, new.ended_at);
  else
    perform follow_subscription_state(new, changed);
  end if;
  if not is_new and new.product_id <> old.product_id and new.seats is not null then
    perform follow_seat_state(s, changed) from seats s where s.organization_id = new.organization_id and s.subscription_id = new.id and s.status <> 'revoked';
  end if;
  return null;
end
$$;
create trigger subscriptions_metrics_new after insert on subscriptions for each row execute function note_subscription_metrics();
create trigger subscriptions_metrics after update on subscriptions for each row
  when ((old.status, old.started_at, old.ended_at, old.canceled_at, old.customer_cancellation_reason, old.cancel_at_period_end, old.amount, old.currency, old.product_id,
      old.customer_id, old.seats, old.period_discount_id, old.discount_id, old.recurring_interval, old.recurring_interval_count, old.tax_behavior)
    is distinct from (new.status, new.started_at, new.ended_at, new.canceled_at, new.customer_cancellation_reason, new.cancel_at_period_end, new.amount, new.currency,
      new.product_id, new.customer_id, new.seats, new.period_discount_id, new.discount_id, new.recurring_interval, new.recurring_interval_count, new.tax_behavior))
  execute function note_subscription_metrics();

create function metric_class_of(o orders) returns text language sql immutable as $$
  select case when o.subscription_id is null then 'one_time' when o.billing_reason = 'subscription_create' then 'new'
    when o.billing_reason = 'subscription_cycle' then 'renewed' else 'changed' end
$$;

create function note_order_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  is_paid boolean := new.status in ('paid', 'refunded', 'partially_refunded');
  was_paid boolean := tg_op = 'UPDATE' and old.status in ('paid', 'refunded', 'partially_refunded');
  changed timestamptz := case when tg_op = 'INSERT' then new.created_at else coalesce(new.modified_at, new.created_at) end;
  next metric_spans;
  s subscriptions;
begin
  if is_paid <> was_paid then
    perform note_metric_flow(new.organization_id, 'orders.' || metric_class_of(new), changed, case when is_paid then 1 else -1 end,
      case when is_paid then new.net_amount else -old.net_amount end, new.currency, new.customer_id, new.product_id, 'order', new.id);
  end if;
  if new.seats is not null and new.subscription_id is null then
    next.organization_id := new.organization_id;
    next.resource := 'order';
    next.resource_id := new.id;
    next.state := 'sold';
    next.is_open := true;
    next.customer_id := new.customer_id;
    next.product_id := new.product_id;
    next.amount := 0;
    next.seats := new.seats;
    perform follow_metric_span(next, is_paid and new.benefits_revoked_at is null, changed);
  end if;
  -- The first bill of a subscription tells which part of its price is tax.
  if tg_op = 'INSERT' and new.tax_behavior = 'inclusive' and new.billing_reason in ('subscription_create', 'subscription_cycle') then
    select * into s from subscriptions b where b.organization_id = new.organization_id and b.id = new.subscription_id;
    if s.ended_at is null then
      perform follow_subscription_state(s, new.created_at);
    end if;
  end if;
  return null;
end
$$;
create trigger orders_metrics_new after insert on orders for each row execute function note_order_metrics();
create trigger orders_metrics after update on orders for each row
  when ((old.status, old.benefits_revoked_at) is distinct from (new.status, new.benefits_revoked_at)) execute function note_order_metrics();

-- Refunds and lost disputes count as the ledger posts them, at their own time.
create function note_ledger_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  o orders;
  revenue bigint;
  unit text;
begin
  select sum(e.amount), min(e.currency) into revenue, unit from ledger_entries e
    where e.organization_id = new.organization_id and e.transaction_id = new.id and e.account = 'revenue';
  if revenue is null then
    return null;
  end if;
  select b.* into o from orders b where b.organization_id = new.organization_id and b.id = coalesce(
    (select r.order_id from refunds r where r.organization_id = new.organization_id and r.id = new.reference),
    (select d.order_id from disputes d where d.organization_id = new.organization_id and d.id = new.reference));
  -- Metrics never refuse a posting. `bursar verify metrics` reports a posting without a fact.
  if o.id is null then
    return null;
  end if;
  perform note_metric_flow(new.organization_id, 'refunds.' || metric_class_of(o), new.business_at, sign(revenue)::bigint, revenue, unit, o.customer_id, o.product_id,
    case when new.kind = 'dispute_lost' then 'dispute' else 'refund' end, new.reference);
  return null;
end
$$;
create trigger ledger_transactions_metrics after insert on ledger_transactions for each row
  when (new.kind in ('refund_paid', 'refund_reversed', 'dispute_lost')) execute function note_ledger_metrics();

create function note_checkout_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    perform note_metric_flow(new.organization_id, 'checkouts.created', new.created_at, 1, 0, null, new.customer_id, new.product_id, 'checkout', new.id);
  end if;
  if new.status = 'succeeded' then
    perform note_metric_flow(new.organization_id, 'checkouts.succeeded', coalesce(new.modified_at, new.created_at), 1, 0, null, new.customer_id, new.product_id, 'checkout', new.id);
  end if;
  return null;
end
$$;
create trigger checkouts_metrics_new after insert on checkouts for each row execute function note_checkout_metrics();
create trigger checkouts_metrics after update of status on checkouts for each row
  when (old.status <> 'succeeded' and new.status = 'succeeded') execute function note_checkout_metrics();

create function note_seat_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    if new.status = 'revoked' then
      return null;
    end if;
    perform follow_seat_state(new, new.created_at);
  else
    perform follow_seat_state(new, case when new.status = 'revoked' then new.revoked_at when new.status = 'claimed' then coalesce(new.claimed_at, new.modified_at)
      else coalesce(new.modified_at, new.created_at) end);
  end if;
  return null;
end
$$;
create trigger seats_metrics_new after insert on seats for each row execute function note_seat_metrics();
create trigger seats_metrics after update of status, buyer_customer_id on seats for each row
  when ((old.status, old.buyer_customer_id) is distinct from (new.status, new.buyer_customer_id)) execute function note_seat_metrics();

-- The cost of an event in cents, without a rounding error.
create function metric_cost_of(metadata jsonb) returns numeric language sql immutable strict parallel safe as $$
  select coalesce((metadata #>> '{_cost,amount}')::numeric, 0)
$$;

create function note_usage_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into metric_usage (organization_id, subject_id, starts_at, events, cost)
  select organization_id, subject_id, metric_quarter_of(timestamp), count(*), sum(metric_cost_of(metadata)) from added
  where source = 'user' and corrected_at is null group by 1, 2, 3;
  return null;
end
$$;
create trigger usage_events_metrics after insert on usage_events referencing new table as added for each statement execute function note_usage_metrics();

create function note_correction_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into metric_usage (organization_id, subject_id, starts_at, events, cost)
  values (new.organization_id, new.subject_id, metric_quarter_of(new.timestamp), -1, -metric_cost_of(new.metadata));
  return null;
end
$$;
create trigger usage_events_uncount after update of corrected_at on usage_events for each row
  when (old.corrected_at is null and new.corrected_at is not null and new.source = 'user') execute function note_correction_metrics();

-- A role that may run these functions could make a trigger of its own with them, and write facts.
revoke all on function note_checkout_metrics(), note_correction_metrics(), note_ledger_metrics(), note_order_metrics(), note_seat_metrics(), note_subscription_metrics(), note_usage_metrics() from public;

-- The history of existing rows, as far as it is known: earlier prices, trials and scheduled ends of a subscription are not.
insert into metric_spans (organization_id, resource, resource_id, state, is_open, starts_at, ends_at, customer_id, product_id, currency, amount, seats)
  select s.organization_id, 'subscription', s.id, case when s.status = 'trialing' then 'trial' else 'paid' end, not s.cancel_at_period_end or s.ended_at is not null,
    s.started_at, greatest(s.ended_at, s.started_at), s.customer_id, s.product_id, s.currency, metric_monthly(s), coalesce(s.seats, 0)
  from subscriptions s where s.started_at is not null and s.status not in ('incomplete', 'incomplete_expired')
  union all
  select o.organization_id, 'order', o.id, 'sold', true, o.created_at, greatest(o.benefits_revoked_at, o.created_at), o.customer_id, o.product_id, null, 0, o.seats
  from orders o where o.seats is not null and o.subscription_id is null and o.status in ('paid', 'refunded', 'partially_refunded')
  union all
  select s.organization_id, 'seat', s.id, case when s.claimed_at is null then 'pending' else 'claimed' end, true, coalesce(s.claimed_at, s.created_at),
    greatest(s.revoked_at, coalesce(s.claimed_at, s.created_at)), s.buyer_customer_id, coalesce(b.product_id, o.product_id), null, 0, 0
  from seats s left join subscriptions b on b.organization_id = s.organization_id and b.id = s.subscription_id
  left join orders o on o.organization_id = s.organization_id and o.id = s.order_id;
select note_metric_span(s, s.starts_at, 1) from metric_spans s;
select note_metric_span(s, s.ends_at, -1) from metric_spans s where s.ends_at is not null;
insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
  select organization_id, 'subscriptions.started', started_at, 1, 0, null, customer_id, product_id, 'subscription', id from subscriptions where started_at is not null
  union all
  select organization_id, 'subscriptions.ended', ended_at, 1, 0, null, customer_id, product_id, 'subscription', id from subscriptions where ended_at is not null
  union all
  select organization_id, 'subscriptions.canceled.' || coalesce(customer_cancellation_reason, 'other'), canceled_at, 1, 0, null, customer_id, product_id, 'subscription', id
  from subscriptions where canceled_at is not null
  union all
  select o.organization_id, 'orders.' || metric_class_of(o),
    coalesce((select min(p.settled_at) from payments p where p.organization_id = o.organization_id and p.order_id = o.id and p.status = 'succeeded'), o.created_at),
    1, o.net_amount, o.currency, o.customer_id, o.product_id, 'order', o.id
  from orders o where o.status in ('paid', 'refunded', 'partially_refunded')
  union all
  select t.organization_id, 'refunds.' || metric_class_of(o), t.business_at, sign(e.revenue)::bigint, e.revenue, e.currency, o.customer_id, o.product_id,
    case when t.kind = 'dispute_lost' then 'dispute' else 'refund' end, t.reference
  from ledger_transactions t
  cross join lateral (select sum(amount)::bigint as revenue, min(currency) as currency from ledger_entries l
    where l.organization_id = t.organization_id and l.transaction_id = t.id and l.account = 'revenue') e
  join orders o on o.organization_id = t.organization_id and o.id = coalesce(
    (select r.order_id from refunds r where r.organization_id = t.organization_id and r.id = t.reference),
    (select d.order_id from disputes d where d.organization_id = t.organization_id and d.id = t.reference))
  where t.kind in ('refund_paid', 'refund_reversed', 'dispute_lost') and e.revenue is not null
  union all
  select organization_id, 'checkouts.created', created_at, 1, 0, null, customer_id, product_id, 'checkout', id from checkouts
  union all
  select organization_id, 'checkouts.succeeded', coalesce(confirmed_at, modified_at, created_at), 1, 0, null, customer_id, product_id, 'checkout', id
  from checkouts where status = 'succeeded';
insert into metric_usage (organization_id, subject_id, starts_at, events, cost)
  select organization_id, subject_id, metric_quarter_of(timestamp), count(*), sum(metric_cost_of(metadata))
  from usage_events where source = 'user' and corrected_at is null group by 1, 2, 3;

-- How many values of random samples differed from the records. A gauge shows their sum.
create table metric_checks (
  organization_id uuid not null references organizations (id),
  checked_at timestamptz(3) not null,
  differences integer not null
);
create index metric_checks_organization on metric_checks (organization_id);
create index metric_checks_time on metric_checks (checked_at);
grant select, insert, delete on metric_checks to bursar_worker;
