-- System events: what Bursar itself has done. Triggers note them in the statement that makes them true, so no write path can forget one. They are
-- not usage events: no meter, no margin and no chart reads this table.

-- Append-only. No foreign key leaves this table, because it would cost one check for each event. Customers are never deleted.
create table system_events (
  organization_id uuid not null,
  -- Begins with the wall time at which the event was noted.
  id uuid not null,
  -- The business time at which it happened.
  timestamp timestamptz(3) not null,
  name text not null,
  -- Null for a checkout without a customer. The holder of a seat is shown with its buyer in phase 2.
  customer_id uuid,
  member_id uuid,
  metadata jsonb not null,
  -- The part of the metadata that is erased with the customer.
  personal jsonb,
  primary key (organization_id, id)
);
create index system_events_timestamp on system_events (organization_id, timestamp, id);
create index system_events_name on system_events (organization_id, name, timestamp, id);
create index system_events_customer on system_events (organization_id, customer_id, timestamp, id);
create index system_events_personal on system_events (organization_id, customer_id) where personal is not null;
-- Only the triggers insert events. An erasure clears the personal part.
grant select on system_events to bursar_api, bursar_worker;
grant update (personal) on system_events to bursar_api, bursar_worker;

-- How the last change of product or seats was billed. Null before the first one.
alter table subscriptions add column proration_behavior text;

create function system_event_id() returns uuid language plpgsql volatile as $$
declare
  time text := lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0');
begin
  return (substr(time, 1, 8) || '-' || substr(time, 9, 4) || substr(gen_random_uuid()::text, 14))::uuid;
end
$$;

-- A time as the API writes it.
create function written_time(at timestamptz) returns text language sql stable parallel safe as $$
  select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- The stored counts of names serve totals, names and event types, as they do for usage events.
create function note_system_event(organization uuid, name text, moment timestamptz, customer uuid, member uuid, metadata jsonb, personal jsonb default null)
  returns void language plpgsql as $$
begin
  insert into system_events (organization_id, id, timestamp, name, customer_id, member_id, metadata, personal)
  values (organization, system_event_id(), moment, note_system_event.name, customer, member, note_system_event.metadata, note_system_event.personal);
  insert into usage_name_counts (organization_id, name, source, occurrences, first_seen, last_seen)
  values (organization, note_system_event.name, 'system', 1, moment, moment);
end
$$;

-- What the metadata of most events about a subscription contains.
create function subscription_facts(s subscriptions) returns jsonb language sql stable as $$
  select jsonb_build_object('subscription_id', s.id, 'product_id', s.product_id, 'amount', s.amount, 'currency', s.currency,
    'recurring_interval', s.recurring_interval, 'recurring_interval_count', s.recurring_interval_count)
$$;

create function note_canceled_subscription(s subscriptions) returns void language plpgsql as $$
begin
  perform note_system_event(s.organization_id, 'subscription.canceled', s.canceled_at, s.customer_id, null,
    jsonb_strip_nulls(subscription_facts(s) || jsonb_build_object('canceled_at', written_time(s.canceled_at), 'customer_cancellation_reason', s.customer_cancellation_reason,
      'ends_at', written_time(s.ends_at), 'cancel_at_period_end', s.cancel_at_period_end)),
    case when s.customer_cancellation_comment is not null then jsonb_build_object('customer_cancellation_comment', s.customer_cancellation_comment) end);
end
$$;

create function note_new_subscription() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform note_system_event(new.organization_id, 'subscription.created', new.started_at, new.customer_id, null,
    subscription_facts(new) || jsonb_build_object('started_at', written_time(new.started_at)));
  -- An imported subscription may be canceled or ended already.
  if new.canceled_at is not null then
    perform note_canceled_subscription(new);
  end if;
  if new.ended_at is not null then
    perform note_system_event(new.organization_id, 'subscription.revoked', new.ended_at, new.customer_id, null, subscription_facts(new));
  end if;
  return null;
end
$$;
create trigger subscriptions_events_new after insert on subscriptions for each row when (new.started_at is not null) execute function note_new_subscription();

create function note_changed_subscription() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  changed timestamptz := coalesce(new.modified_at, new.created_at);
  -- A new period follows the last one, a pause or a trial. A change that restarts the period begins one too, but that is no cycle.
  cycled boolean := new.current_period_start <> old.current_period_start
    and (new.current_period_start = old.current_period_end or old.status in ('paused', 'trialing'));
  moved boolean := new.current_period_end <> old.current_period_end and new.current_period_start = old.current_period_start;
  was_over boolean := old.status in ('canceled', 'unpaid');
  is_over boolean := new.status in ('canceled', 'unpaid');
  behavior text;
  facts jsonb;
begin
  -- A renewal is by far the most frequent change.
  if cycled then
    facts := subscription_facts(new);
    perform note_system_event(new.organization_id, 'subscription.cycled', new.current_period_start, new.customer_id, null, facts);
  end if;
  if new.product_id <> old.product_id or new.seats is distinct from old.seats or new.discount_id is distinct from old.discount_id
    or new.trial_end is distinct from old.trial_end or moved then
    behavior := coalesce(new.proration_behavior,
      (select o.subscription_settings ->> 'proration_behavior' from organizations o where o.id = new.organization_id), 'prorate');
    perform note_system_event(new.organization_id, 'subscription.updated', changed, new.customer_id, null,
      jsonb_strip_nulls(jsonb_build_object('subscription_id', new.id,
        'product_id', case when new.product_id <> old.product_id then new.product_id end,
        'proration_behavior', case when new.product_id <> old.product_id or new.seats is distinct from old.seats then behavior end,
        'trial_end', case when new.trial_end is distinct from old.trial_end then written_time(new.trial_end) end,
        'seats', case when new.seats is distinct from old.seats then new.seats end,
        'billing_period_end', case when moved then written_time(new.current_period_end) end))
      || case when new.discount_id is distinct from old.discount_id then jsonb_build_object('discount_id', new.discount_id) else '{}' end);
    if new.product_id <> old.product_id then
      perform note_system_event(new.organization_id, 'subscription.product_updated', changed, new.customer_id, null,
        jsonb_build_object('subscription_id', new.id, 'old_product_id', old.product_id, 'new_product_id', new.product_id));
    end if;
    if new.seats <> old.seats then
      perform note_system_event(new.organization_id, 'subscription.seats_updated', changed, new.customer_id, null,
        jsonb_build_object('subscription_id', new.id, 'old_seats', old.seats, 'new_seats', new.seats, 'proration_behavior', behavior));
    end if;
    if moved then
      perform note_system_event(new.organization_id, 'subscription.billing_period_updated', changed, new.customer_id, null,
        jsonb_build_object('subscription_id', new.id, 'old_period_end', written_time(old.current_period_end), 'new_period_end', written_time(new.current_period_end)));
    end if;
  end if;
  if new.status = old.status and new.canceled_at is not distinct from old.canceled_at and new.cancel_at_period_end = old.cancel_at_period_end then
    return null;
  end if;
  facts := subscription_facts(new);
  if new.status = 'paused' and old.status <> 'paused' then
    perform note_system_event(new.organization_id, 'subscription.paused', coalesce(new.paused_at, changed), new.customer_id, null,
      jsonb_strip_nulls(facts || jsonb_build_object('paused_at', written_time(coalesce(new.paused_at, changed)), 'resumes_at', written_time(new.resumes_at))));
  end if;
  if old.status = 'paused' and new.status in ('active', 'trialing') then
    perform note_system_event(new.organization_id, 'subscription.resumed', changed, new.customer_id, null, facts);
  end if;
  if new.status = 'past_due' and old.status <> 'past_due' then
    perform note_system_event(new.organization_id, 'subscription.past_due', coalesce(new.past_due_at, changed), new.customer_id, null,
      facts || jsonb_build_object('past_due_at', written_time(coalesce(new.past_due_at, changed))));
  end if;
  if old.status = 'past_due' and new.status = 'active' then
    perform note_system_event(new.organization_id, 'subscription.reactivated', changed, new.customer_id, null, facts);
  end if;
  if old.cancel_at_period_end and not new.cancel_at_period_end and not is_over then
    perform note_system_event(new.organization_id, 'subscription.uncanceled', changed, new.customer_id, null, facts);
  end if;
  if new.canceled_at is not null and old.canceled_at is null then
    perform note_canceled_subscription(new);
  end if;
  if is_over and not was_over then
    perform note_system_event(new.organization_id, 'subscription.revoked', coalesce(new.ended_at, changed), new.customer_id, null, facts);
  end if;
  if was_over and not is_over then
    perform note_system_event(new.organization_id, 'subscription.reinstated', changed, new.customer_id, null, facts);
  end if;
  return null;
end
$$;
create trigger subscriptions_events after update on subscriptions for each row
  when ((old.status, old.product_id, old.discount_id, old.seats, old.trial_end, old.current_period_start, old.current_period_end, old.canceled_at, old.cancel_at_period_end)
    is distinct from (new.status, new.product_id, new.discount_id, new.seats, new.trial_end, new.current_period_start, new.current_period_end, new.canceled_at, new.cancel_at_period_end))
  execute function note_changed_subscription();

-- A scheduled change is deleted when it is applied, replaced or cleared. The statement that clears it sets `bursar.cleared` to the business time.
create function note_cleared_update() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  cleared timestamptz := nullif(current_setting('bursar.cleared', true), '')::timestamptz;
begin
  if cleared is not null then
    perform set_config('bursar.cleared', '', true);
    perform note_system_event(s.organization_id, 'subscription.update_cleared', cleared, s.customer_id, null, jsonb_build_object('subscription_id', s.id))
      from subscriptions s where s.organization_id = old.organization_id and s.id = old.subscription_id;
  end if;
  return null;
end
$$;
create trigger subscription_updates_events after delete on subscription_updates for each row when (old.kind = 'pending') execute function note_cleared_update();

-- Where the buyer of an order is taxed.
create function order_place(o orders) returns jsonb language sql stable as $$
  select case when o.billing_address is null then '{}'::jsonb
    else jsonb_build_object('tax_country', o.billing_address ->> 'country', 'tax_state', o.billing_address ->> 'state') end
$$;

create function note_order_events() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  is_paid boolean := new.status in ('paid', 'refunded', 'partially_refunded');
  was_paid boolean := tg_op = 'UPDATE' and old.status in ('paid', 'refunded', 'partially_refunded');
  was_void boolean := tg_op = 'UPDATE' and old.status = 'void';
  changed timestamptz := case when tg_op = 'INSERT' then new.created_at else coalesce(new.modified_at, new.created_at) end;
  received bigint;
  posting uuid;
  tax bigint;
begin
  if is_paid and not was_paid then
    perform note_system_event(new.organization_id, 'order.paid', changed, new.customer_id, null, jsonb_strip_nulls(jsonb_build_object(
      'order_id', new.id, 'product_id', new.product_id, 'billing_type', case when new.subscription_id is null then 'one_time' else 'recurring' end,
      'amount', new.total_amount, 'currency', new.currency, 'net_amount', new.net_amount, 'tax_amount', new.tax_amount,
      'applied_balance_amount', new.applied_balance_amount, 'discount_amount', new.discount_amount, 'discount_id', new.discount_id, 'platform_fee', 0,
      'subscription_id', new.subscription_id)));
    if new.due_amount > new.carried_amount then
      select p.amount, t.id into received, posting
      from payments p join ledger_transactions t on t.organization_id = p.organization_id and t.kind = 'payment_received' and t.reference = p.id
      where p.organization_id = new.organization_id and p.order_id = new.id and p.status = 'succeeded' order by p.created_at desc limit 1;
      if posting is null and new.checkout_id is not null then
        -- The payment of a checkout is older than its order.
        select p.amount, t.id into received, posting
        from payments p join ledger_transactions t on t.organization_id = p.organization_id and t.kind = 'payment_received' and t.reference = p.id
        where p.organization_id = new.organization_id and p.checkout_id = new.checkout_id and p.status = 'succeeded' order by p.created_at desc limit 1;
      end if;
      -- An imported order may have no posting.
      if posting is not null then
        -- If credit has paid a part of the order, it has paid the same part of the tax. A payment may also pay an older debt.
        tax := case when new.total_amount > 0 then round(new.tax_amount::numeric * least(received, new.total_amount) / new.total_amount) else 0 end;
        perform note_system_event(new.organization_id, 'balance.order', changed, new.customer_id, null, jsonb_strip_nulls(jsonb_build_object(
          'transaction_id', posting, 'order_id', new.id, 'product_id', new.product_id, 'subscription_id', new.subscription_id,
          'amount', received - tax, 'net_amount', new.net_amount, 'currency', new.currency, 'presentment_amount', received - tax, 'presentment_currency', new.currency,
          'tax_amount', tax, 'fee', 0)) || order_place(new));
      end if;
    elsif new.applied_balance_amount < 0 and new.total_amount > 0 then
      perform note_system_event(new.organization_id, 'balance.credit_order', changed, new.customer_id, null, jsonb_strip_nulls(jsonb_build_object(
        'order_id', new.id, 'product_id', new.product_id, 'subscription_id', new.subscription_id,
        'amount', new.net_amount, 'currency', new.currency, 'tax_amount', new.tax_amount, 'fee', 0)) || order_place(new));
    end if;
  end if;
  if tg_op = 'UPDATE' and new.refunded_amount + new.refunded_tax_amount > old.refunded_amount + old.refunded_tax_amount then
    perform note_system_event(new.organization_id, 'order.refunded', changed, new.customer_id, null,
      jsonb_build_object('order_id', new.id, 'refunded_amount', new.refunded_amount, 'currency', new.currency));
  end if;
  if (new.status = 'void') <> was_void then
    perform note_system_event(new.organization_id, case when was_void then 'order.unvoided' else 'order.voided' end, changed, new.customer_id, null,
      jsonb_build_object('order_id', new.id, 'amount', new.total_amount, 'currency', new.currency));
  end if;
  return null;
end
$$;
create trigger orders_events_new after insert on orders for each row when (new.status not in ('draft', 'pending')) execute function note_order_events();
create trigger orders_events after update on orders for each row
  when ((old.status, old.refunded_amount, old.refunded_tax_amount) is distinct from (new.status, new.refunded_amount, new.refunded_tax_amount))
  execute function note_order_events();

-- Money that leaves and comes back. A lost dispute moves none: it left when the dispute was opened.
create function note_ledger_events() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  o orders;
  moved record;
  about text := case when new.kind in ('refund_paid', 'refund_reversed') then 'refund_id' else 'dispute_id' end;
begin
  if about = 'refund_id' then
    select r.order_id, r.amount, r.tax_amount, r.currency into moved from refunds r where r.organization_id = new.organization_id and r.id = new.reference;
  else
    select d.order_id, d.amount, d.tax_amount, d.currency into moved from disputes d where d.organization_id = new.organization_id and d.id = new.reference;
  end if;
  select b.* into o from orders b where b.organization_id = new.organization_id and b.id = moved.order_id;
  -- Events never refuse a posting.
  if o.id is null then
    return null;
  end if;
  perform note_system_event(new.organization_id,
    case new.kind when 'refund_paid' then 'balance.refund' when 'refund_reversed' then 'balance.refund_reversal'
      when 'dispute_withheld' then 'balance.dispute' else 'balance.dispute_reversal' end,
    new.business_at, o.customer_id, null, jsonb_strip_nulls(jsonb_build_object(
      'transaction_id', new.id, about, new.reference, 'amount', moved.amount, 'currency', moved.currency,
      'presentment_amount', moved.amount, 'presentment_currency', moved.currency, 'tax_amount', moved.tax_amount, 'fee', 0,
      'order_id', o.id, 'order_created_at', written_time(o.created_at), 'product_id', o.product_id, 'subscription_id', o.subscription_id)) || order_place(o));
  return null;
end
$$;
create trigger ledger_transactions_events after insert on ledger_transactions for each row
  when (new.kind in ('refund_paid', 'refund_reversed', 'dispute_withheld', 'dispute_returned')) execute function note_ledger_events();

create function note_checkout_events() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform note_system_event(new.organization_id, 'checkout.created', new.created_at, new.customer_id, null,
    jsonb_build_object('checkout_id', new.id, 'checkout_status', new.status, 'product_id', new.product_id));
  return null;
end
$$;
create trigger checkouts_events after insert on checkouts for each row execute function note_checkout_events();

-- The fields of a customer whose changes are noted.
create function noted_fields(c customers) returns jsonb language sql stable as $$
  select jsonb_build_object('name', c.name, 'billing_name', c.billing_name, 'email', c.email, 'billing_address', c.billing_address, 'tax_id', c.tax_id, 'metadata', c.metadata)
$$;

create function note_customer_events() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  kind text;
  moment timestamptz := coalesce(new.modified_at, new.created_at);
  personal jsonb := jsonb_build_object('customer_email', new.email, 'customer_name', new.name, 'customer_external_id', new.external_id);
begin
  if tg_op = 'INSERT' then
    kind := 'customer.created';
    moment := new.created_at;
  elsif new.deleted_at is not null and old.deleted_at is null then
    kind := 'customer.deleted';
    moment := new.deleted_at;
  elsif (new.deleted_at is null and old.deleted_at is not null) or (new.tombstoned_at is null and old.tombstoned_at is not null) then
    kind := 'customer.created';
  elsif new.deleted_at is null and noted_fields(new) <> noted_fields(old) then
    kind := 'customer.updated';
    personal := personal || jsonb_build_object('updated_fields', (
      select jsonb_object_agg(f.key, f.value) from jsonb_each(noted_fields(new)) f where f.value is distinct from noted_fields(old) -> f.key));
  else
    return null;
  end if;
  perform note_system_event(new.organization_id, kind, moment, new.id, null, jsonb_build_object('customer_id', new.id),
    case when new.forgotten_at is null then personal end);
  return null;
end
$$;
create trigger customers_events_new after insert on customers for each row execute function note_customer_events();
-- An erasure changes a customer too. It is not an update.
create trigger customers_events after update on customers for each row
  when ((new.forgotten_at is null or (old.deleted_at is null and new.deleted_at is not null)) and (old.name, old.billing_name, old.email, old.billing_address, old.tax_id, old.metadata, old.deleted_at, old.tombstoned_at)
    is distinct from (new.name, new.billing_name, new.email, new.billing_address, new.tax_id, new.metadata, new.deleted_at, new.tombstoned_at))
  execute function note_customer_events();

create function note_grant_event(name text, moment timestamptz, g benefit_grants) returns void language plpgsql as $$
begin
  perform note_system_event(g.organization_id, note_grant_event.name, moment, coalesce(g.holder_customer_id, g.buyer_customer_id), g.member_id,
    jsonb_strip_nulls(jsonb_build_object('benefit_id', g.benefit_id, 'benefit_grant_id', g.id,
      'benefit_type', (select b.type from benefits b where b.organization_id = g.organization_id and b.id = g.benefit_id), 'member_id', g.member_id)));
end
$$;

create function note_grant_events() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  is_given boolean := new.granted_at is not null and new.revoked_at is null;
  was_given boolean := tg_op = 'UPDATE' and old.granted_at is not null and old.revoked_at is null;
begin
  if is_given and not was_given then
    perform note_grant_event('benefit.granted', new.granted_at, new);
  elsif was_given and new.revoked_at is not null then
    perform note_grant_event('benefit.revoked', new.revoked_at, new);
  elsif is_given and new.cycled_for is not null and new.cycled_for is distinct from old.cycled_for then
    perform note_grant_event('benefit.cycled', coalesce(new.modified_at, new.created_at), new);
  end if;
  return null;
end
$$;
create trigger benefit_grants_events_new after insert on benefit_grants for each row when (new.granted_at is not null) execute function note_grant_events();
create trigger benefit_grants_events after update on benefit_grants for each row
  when ((old.granted_at, old.revoked_at, old.cycled_for) is distinct from (new.granted_at, new.revoked_at, new.cycled_for)) execute function note_grant_events();

-- A grant is written several times while it is given, so its row does not tell an update. The webhook event does.
create function note_updated_grant() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform note_grant_event('benefit.updated', new.business_at, g) from benefit_grants g where g.organization_id = new.organization_id and g.id = new.resource_id;
  return null;
end
$$;
create trigger events_updated_grants after insert on events for each row
  when (new.kind = 'benefit_grant.updated' and not new.is_migration) execute function note_updated_grant();

create function note_credit_event() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform note_system_event(new.organization_id, 'meter.credited', new.created_at, new.customer_id, null,
    jsonb_build_object('meter_id', new.meter_id, 'units', new.units, 'rollover', new.rollover));
  return null;
end
$$;
create trigger meter_credits_events after insert on meter_credits for each row execute function note_credit_event();

-- A metered price counts from zero in each billing period.
create function note_meter_reset() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform note_system_event(new.organization_id, 'meter.reset', new.starts_at, new.customer_id, null, jsonb_build_object('meter_id', new.meter_id));
  return null;
end
$$;
create trigger usage_periods_events after insert on usage_periods for each row when (new.starts_at = new.billing_start) execute function note_meter_reset();

-- A role that may run these functions could make a trigger of its own with them, and write events.
revoke all on function note_new_subscription(), note_changed_subscription(), note_cleared_update(), note_order_events(), note_ledger_events(), note_checkout_events(),
  note_customer_events(), note_grant_events(), note_updated_grant(), note_credit_event(), note_meter_reset() from public;
