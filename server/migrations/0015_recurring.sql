-- What comes again: renewals, retries, changes that wait, and clocks that travel.

-- A time of its own for some customers of the sandbox. Due like everything else while it travels, by the clock on the wall.
create table test_clocks (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  name text,
  now_at timestamptz(3) not null,
  target_at timestamptz(3),
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  check (target_at is null or target_at >= now_at)
);
create index test_clocks_created on test_clocks (organization_id, created_at, id);
create index test_clocks_due on test_clocks (due_at) where due_at is not null;
grant select, insert, update on test_clocks to bursar_api;
grant select, update on test_clocks to bursar_worker;

alter table customers add column clock_id uuid;
alter table customers add foreign key (organization_id, clock_id) references test_clocks (organization_id, id);
create index customers_clock on customers (organization_id, clock_id) where clock_id is not null;

-- When something is to happen to it next: a reminder, the end of its period, the end of its pause.
alter table subscriptions
  add column due_at timestamptz,
  add column clock_id uuid,
  add column lease_until timestamptz,
  add column lease_token uuid,
  add column lease_holder text,
  -- The discount that the period under way was billed with, whatever was changed about discounts since.
  add column period_discount_id uuid,
  -- Since when its periods follow each other by the calendar it has now.
  add column calendar_from timestamptz(3),
  -- The end of the period that a reminder was sent for.
  add column reminded_for timestamptz(3),
  -- It would have been billed more often than its calendar allows: nothing happens to it before somebody has looked.
  add column parked_at timestamptz(3);
alter table subscriptions add foreign key (organization_id, period_discount_id) references discounts (organization_id, id);
create index subscriptions_period_discount on subscriptions (organization_id, period_discount_id);
update subscriptions set period_discount_id = discount_id where status <> 'trialing';
update subscriptions set calendar_from = coalesce(started_at, created_at),
  due_at = case when status in ('trialing', 'active', 'past_due') then current_period_end when status = 'paused' then resumes_at end;
alter table subscriptions alter column calendar_from set not null;
create index subscriptions_due on subscriptions (due_at) where due_at is not null and clock_id is null;
create index subscriptions_clock on subscriptions (organization_id, clock_id, due_at) where clock_id is not null;

-- When its money is to be asked for next.
alter table orders
  add column due_at timestamptz,
  add column clock_id uuid,
  add column lease_until timestamptz,
  add column lease_token uuid,
  add column lease_holder text,
  -- Which period of a subscription it is for.
  add column period_start timestamptz(3),
  add column period_end timestamptz(3),
  -- When its payment first failed: the days of further tries are counted from there.
  add column first_failed_at timestamptz(3);
-- A period is billed once, whoever thinks it is due.
create unique index orders_period on orders (organization_id, subscription_id, period_start) where billing_reason = 'subscription_cycle';
create index orders_due on orders (due_at) where due_at is not null and clock_id is null;
create index orders_clock on orders (organization_id, clock_id, due_at) where clock_id is not null;
create index orders_open on orders (organization_id, subscription_id) where status = 'pending';

-- Rows on a clock are found by it.
drop index checkouts_due;
create index checkouts_due on checkouts (due_at) where due_at is not null and clock_id is null;
create index checkouts_clock on checkouts (organization_id, clock_id, due_at) where clock_id is not null;
create index payments_clock on payments (organization_id, clock_id, due_at) where clock_id is not null;
create index refunds_clock on refunds (organization_id, clock_id, due_at) where clock_id is not null;

-- What is charged while nobody is there.
alter table payments add column payment_method_id uuid,
  -- What follows from its outcome for its order has happened, with the outcome or right after it.
  add column concluded_at timestamptz(3);
update payments set concluded_at = settled_at where settled_at is not null;
alter table payments add foreign key (organization_id, payment_method_id) references payment_methods (organization_id, id);
-- A customer who pays by hand leaves what they pay with.
grant insert on payment_methods to bursar_api;
create index payments_method on payments (organization_id, payment_method_id);
create index payments_pending on payments (organization_id, customer_id) where status = 'pending' or (concluded_at is null and checkout_id is null);

-- A change that was asked for and has not happened: it waits for the next period, or for its order to be paid. Only what
-- is wanted is kept; dates and amounts are made when it happens.
create table subscription_updates (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  subscription_id uuid not null,
  kind text not null check (kind in ('pending', 'paying')),
  product_id uuid,
  seats integer check (seats >= 1),
  -- A new period begins with it.
  restarts boolean not null,
  -- What is being paid for, price by price: nobody gets another than they were charged for.
  price_ids uuid[],
  -- What else is different with it.
  besides jsonb not null default '{}',
  order_id uuid,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  check ((kind = 'paying') = (order_id is not null)),
  check ((kind = 'paying') = (price_ids is not null)),
  check (product_id is not null or seats is not null)
);
create unique index subscription_updates_one on subscription_updates (organization_id, subscription_id, kind);
create index subscription_updates_product on subscription_updates (organization_id, product_id);
create index subscription_updates_order on subscription_updates (organization_id, order_id);
grant select, insert, update, delete on subscription_updates to bursar_api, bursar_worker;

-- What a change cost or gave back, and no order has said yet. Discounts are already in it.
create table billing_entries (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  subscription_id uuid not null,
  product_price_id uuid not null,
  -- Of one change, in its order.
  position integer not null,
  label text not null,
  amount bigint not null check (amount <> 0),
  currency text not null,
  order_id uuid,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, product_price_id) references product_prices (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id)
);
create index billing_entries_open on billing_entries (organization_id, subscription_id, created_at) where order_id is null;
create index billing_entries_subscription on billing_entries (organization_id, subscription_id);
create index billing_entries_price on billing_entries (organization_id, product_price_id);
create index billing_entries_order on billing_entries (organization_id, order_id);
grant select, insert on billing_entries to bursar_api, bursar_worker;
grant update (order_id) on billing_entries to bursar_api, bursar_worker;

-- Every mail that was promised to somebody, once.
create table mails (
  organization_id uuid not null references organizations (id),
  kind text not null,
  reference uuid not null,
  moment timestamptz(3) not null,
  promised_at timestamptz(3) not null,
  primary key (organization_id, kind, reference, moment)
);
grant select, insert on mails to bursar_api, bursar_worker;

-- A discount can be given to a subscription that is under way.
alter table discount_redemptions alter column checkout_id drop not null, add column subscription_id uuid;
alter table discount_redemptions add foreign key (organization_id, subscription_id) references subscriptions (organization_id, id);
alter table discount_redemptions add check ((checkout_id is null) <> (subscription_id is null));
create index discount_redemptions_subscription on discount_redemptions (organization_id, subscription_id);

alter table ledger_transactions drop constraint ledger_transactions_kind_check;
alter table ledger_transactions add constraint ledger_transactions_kind_check
  check (kind in ('order_billed', 'order_voided', 'payment_received', 'refund_paid', 'refund_reversed', 'balance_adjusted'));

-- Nobody answers for what the worker does on its own: it notes nothing.
create or replace function note_change() returns trigger language plpgsql as $$
declare
  noted text;
begin
  if current_user = 'bursar_worker' then
    return null;
  end if;
  noted := coalesce(current_setting('bursar.changes', true), '');
  -- Beyond this the rest is only known to have been there.
  if length(noted) > 500000 then
    if right(noted, 4) <> 'more' then
      perform set_config('bursar.changes', noted || 'more', true);
    end if;
    return null;
  end if;
  perform set_config('bursar.changes', noted || case tg_op
    when 'INSERT' then format('{"table":"%s","is":%s}', tg_table_name, row_to_json(new))
    when 'UPDATE' then format('{"table":"%s","was":%s,"is":%s}', tg_table_name, row_to_json(old), row_to_json(new))
    else format('{"table":"%s","was":%s}', tg_table_name, row_to_json(old))
  end || E'\n', true);
  return null;
end
$$;
call note_changes_of('test_clocks', 'subscription_updates', 'billing_entries');

-- What was declined and then called off still says why, as with any processor: whoever comes later is told the same.
alter table test_processor.intents drop constraint intents_check1;
alter table test_processor.intents add constraint intents_declined
  check (case status when 'failed' then decline_code is not null when 'canceled' then true else decline_code is null end);
