-- Where money is taken, what is owed and paid, and what goes back.

-- Whose money: an organization's account with a processor. Its callbacks are signed with a secret of its own.
create table payment_accounts (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  processor text not null check (processor in ('test', 'stripe')),
  secret_sealed text not null,
  is_default boolean not null,
  primary key (organization_id, id)
);
create index payment_accounts_id on payment_accounts (id);
create unique index payment_accounts_default on payment_accounts (organization_id) where is_default;
grant select, insert on payment_accounts to bursar_api;
grant select on payment_accounts to bursar_worker;

-- What a processor told us, once each, however often it says so.
create table processor_events (
  organization_id uuid not null,
  account_id uuid not null,
  event_id text not null,
  kind text not null,
  object_id text not null,
  received_at timestamptz(3) not null,
  primary key (organization_id, account_id, event_id),
  foreign key (organization_id, account_id) references payment_accounts (organization_id, id)
);
create index processor_events_age on processor_events (received_at);
grant select, insert on processor_events to bursar_api, bursar_worker;
grant delete on processor_events to bursar_worker;

alter table payment_methods add column account_id uuid, add column processor_method_id text, add column fingerprint text;
alter table payment_methods add foreign key (organization_id, account_id) references payment_accounts (organization_id, id);
create index payment_methods_account on payment_methods (organization_id, account_id);
create unique index payment_methods_processor on payment_methods (organization_id, account_id, processor_method_id) where deleted_at is null and processor_method_id is not null;
grant insert on payment_methods to bursar_worker;
grant update (modified_at, deleted_at) on payment_methods to bursar_worker;
grant update (default_payment_method_id) on customers to bursar_worker;

create table checkouts (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  status text not null check (status in ('open', 'expired', 'confirmed', 'succeeded', 'failed')),
  -- Found by its hash among the credentials; shown again to the seller.
  secret_sealed text not null,
  expires_at timestamptz(3) not null,
  product_id uuid not null,
  currency text not null,
  -- The prices that the amounts were computed from: nobody is charged by others unseen.
  price_ids uuid[] not null default '{}',
  -- What the buyer chose to pay, where they may choose.
  chosen_amount bigint,
  seats integer check (seats between 1 and 10000),
  min_seats integer,
  max_seats integer,
  amount bigint not null,
  discount_amount bigint not null,
  net_amount bigint not null,
  tax_amount bigint,
  tax_behavior text check (tax_behavior in ('inclusive', 'exclusive')),
  -- How the tax came about: rate in parts per million, jurisdiction, reason.
  tax jsonb,
  total_amount bigint not null,
  allow_trial boolean,
  trial_interval text,
  trial_interval_count integer,
  trial_end timestamptz(3),
  discount_id uuid,
  allow_discount_codes boolean not null,
  require_billing_address boolean not null,
  is_business_customer boolean not null,
  customer_id uuid,
  external_customer_id text,
  customer_name text,
  customer_email text,
  customer_ip_address text,
  customer_billing_name text,
  customer_billing_address jsonb,
  customer_tax_id text,
  customer_tax_id_format text,
  customer_metadata jsonb not null,
  locale text,
  payment_method_type text,
  custom_field_data jsonb not null,
  metadata jsonb not null,
  subscription_id uuid,
  success_url text,
  return_url text,
  embed_origin text,
  -- What the buyer agreed to, line by line: whatever is changed in the catalog afterwards, this is what was charged.
  figures jsonb,
  -- Which token the buyer confirmed with, hashed: the same one again is the same wish.
  confirmed_with text,
  confirmed_at timestamptz(3),
  -- The attempt that this confirmation stands or falls with; null where nothing is to pay.
  payment_id uuid,
  -- The seller said whose checkout it is.
  is_bound boolean not null,
  -- The buyer was told apart from everybody else by more than an address: they may be let into the portal.
  knows_customer boolean not null,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  check (status not in ('confirmed', 'succeeded') or (figures is not null and customer_id is not null))
);
create index checkouts_created on checkouts (organization_id, created_at, id);
create index checkouts_expires on checkouts (organization_id, expires_at, id);
create index checkouts_status on checkouts (organization_id, status, created_at, id);
create index checkouts_product on checkouts (organization_id, product_id, created_at);
create index checkouts_discount on checkouts (organization_id, discount_id);
create index checkouts_email on checkouts (organization_id, lower(customer_email)) where customer_id is null;
create index checkouts_payment on checkouts (organization_id, payment_id);
create index checkouts_customer on checkouts (organization_id, customer_id, created_at);
create index checkouts_due on checkouts (due_at) where due_at is not null;
create trigger checkouts_come after insert on checkouts referencing new table as changed for each statement execute function count_rows('checkouts');
grant select, insert, update on checkouts to bursar_api;
grant select, update on checkouts to bursar_worker;

-- The products to choose from.
create table checkout_products (
  organization_id uuid not null,
  checkout_id uuid not null,
  product_id uuid not null,
  position integer not null,
  primary key (organization_id, checkout_id, product_id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id)
);
create index checkout_products_product on checkout_products (organization_id, product_id);
grant select, insert on checkout_products to bursar_api;
grant select on checkout_products to bursar_worker;

-- Prices that were made for one checkout; they are no part of the catalog.
alter table product_prices add column checkout_id uuid;
alter table product_prices add foreign key (organization_id, checkout_id) references checkouts (organization_id, id);
alter table product_prices add check ((source = 'ad_hoc') = (checkout_id is not null));
create index product_prices_checkout on product_prices (organization_id, checkout_id);

-- One use of a discount: reserved when a checkout is confirmed, given back when it is not paid.
create table discount_redemptions (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  discount_id uuid not null,
  checkout_id uuid not null,
  customer_id uuid not null,
  -- The same person under another spelling, or with the same card: keyed hashes.
  email_key text not null,
  card_key text,
  primary key (organization_id, id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create unique index discount_redemptions_checkout on discount_redemptions (organization_id, checkout_id);
create index discount_redemptions_discount on discount_redemptions (organization_id, discount_id, customer_id);
create index discount_redemptions_email on discount_redemptions (organization_id, discount_id, email_key);
create index discount_redemptions_card on discount_redemptions (organization_id, discount_id, card_key) where card_key is not null;
create index discount_redemptions_customer on discount_redemptions (organization_id, customer_id);
grant select, insert, delete on discount_redemptions to bursar_api, bursar_worker;
grant update (redemptions_count) on discounts to bursar_worker;

-- Who has had a trial, by the same keys.
create table trial_redemptions (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  checkout_id uuid not null,
  customer_id uuid not null,
  email_key text not null,
  card_key text,
  primary key (organization_id, id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create unique index trial_redemptions_checkout on trial_redemptions (organization_id, checkout_id);
create index trial_redemptions_customer on trial_redemptions (organization_id, customer_id);
create index trial_redemptions_email on trial_redemptions (organization_id, email_key);
create index trial_redemptions_card on trial_redemptions (organization_id, card_key) where card_key is not null;
grant select, insert, delete on trial_redemptions to bursar_api, bursar_worker;

create table subscriptions (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  status text not null check (status in ('incomplete', 'incomplete_expired', 'trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused')),
  customer_id uuid not null,
  product_id uuid not null,
  discount_id uuid,
  checkout_id uuid,
  payment_method_id uuid,
  amount bigint not null,
  currency text not null,
  tax_behavior text check (tax_behavior in ('inclusive', 'exclusive')),
  recurring_interval text not null check (recurring_interval in ('day', 'week', 'month', 'year')),
  recurring_interval_count integer not null check (recurring_interval_count between 1 and 999),
  anchor_day smallint not null check (anchor_day between 1 and 31),
  current_period_start timestamptz(3) not null,
  current_period_end timestamptz(3) not null,
  current_meter_period_start timestamptz(3),
  current_meter_period_end timestamptz(3),
  trial_start timestamptz(3),
  trial_end timestamptz(3),
  started_at timestamptz(3),
  cancel_at_period_end boolean not null default false,
  canceled_at timestamptz(3),
  ends_at timestamptz(3),
  ended_at timestamptz(3),
  past_due_at timestamptz(3),
  pause_at_period_end boolean not null default false,
  paused_at timestamptz(3),
  resumes_at timestamptz(3),
  seats integer check (seats >= 1),
  discount_applied_at timestamptz(3),
  customer_cancellation_reason text,
  customer_cancellation_comment text,
  metadata jsonb not null,
  custom_field_data jsonb not null,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  foreign key (organization_id, payment_method_id) references payment_methods (organization_id, id),
  check (current_period_start <= current_period_end)
);
-- A checkout becomes one subscription, however often its payment is heard of.
create unique index subscriptions_checkout on subscriptions (organization_id, checkout_id);
create index subscriptions_started on subscriptions (organization_id, (coalesce(started_at, created_at)), id);
create index subscriptions_status on subscriptions (organization_id, status, started_at, id);
create index subscriptions_customer on subscriptions (organization_id, customer_id, status);
create index subscriptions_product on subscriptions (organization_id, product_id, started_at);
create index subscriptions_discount on subscriptions (organization_id, discount_id);
create index subscriptions_method on subscriptions (organization_id, payment_method_id);
create trigger subscriptions_come after insert on subscriptions referencing new table as changed for each statement execute function count_rows('subscriptions');
grant select, insert, update on subscriptions to bursar_api, bursar_worker;
alter table checkouts add foreign key (organization_id, subscription_id) references subscriptions (organization_id, id);
create index checkouts_subscription on checkouts (organization_id, subscription_id);

-- The prices it was bought at.
create table subscription_prices (
  organization_id uuid not null,
  subscription_id uuid not null,
  price_id uuid not null,
  position integer not null,
  primary key (organization_id, subscription_id, price_id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, price_id) references product_prices (organization_id, id)
);
create index subscription_prices_price on subscription_prices (organization_id, price_id);
grant select, insert, delete on subscription_prices to bursar_api, bursar_worker;

create table orders (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  status text not null check (status in ('draft', 'pending', 'paid', 'refunded', 'partially_refunded', 'void')),
  billing_reason text not null check (billing_reason in ('purchase', 'subscription_create', 'subscription_cycle', 'subscription_update', 'subscription_meter_cycle')),
  currency text not null,
  subtotal_amount bigint not null,
  discount_amount bigint not null,
  net_amount bigint not null,
  tax_amount bigint not null,
  total_amount bigint not null,
  applied_balance_amount bigint not null,
  due_amount bigint not null check (due_amount >= 0),
  carried_amount bigint not null check (carried_amount >= 0),
  refunded_amount bigint not null default 0 check (refunded_amount >= 0),
  refunded_tax_amount bigint not null default 0 check (refunded_tax_amount >= 0),
  tax_behavior text check (tax_behavior in ('inclusive', 'exclusive')),
  billing_name text,
  billing_address jsonb,
  tax_id text,
  tax_id_format text,
  invoice_number text,
  receipt_number text,
  seats integer,
  customer_id uuid not null,
  product_id uuid,
  discount_id uuid,
  subscription_id uuid,
  checkout_id uuid,
  next_payment_attempt_at timestamptz(3),
  description text not null,
  metadata jsonb not null,
  custom_field_data jsonb not null,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  check (total_amount = net_amount + tax_amount),
  check (net_amount = subtotal_amount - discount_amount - case when tax_behavior = 'inclusive' then tax_amount else 0 end),
  check (refunded_amount <= greatest(0, net_amount + applied_balance_amount)),
  check (refunded_tax_amount <= greatest(0, tax_amount)),
  -- A number is for what is owed or was paid: never for a draft, never for what was called off.
  check (invoice_number is null or status not in ('draft', 'void'))
);
-- A checkout becomes one order, however often its payment is heard of.
create unique index orders_checkout on orders (organization_id, checkout_id) where billing_reason in ('purchase', 'subscription_create');
create unique index orders_invoice on orders (organization_id, invoice_number) where invoice_number is not null;
create index orders_checkouts on orders (organization_id, checkout_id);
create index orders_created on orders (organization_id, created_at, id);
create index orders_status on orders (organization_id, status, created_at, id);
create index orders_amount on orders (organization_id, total_amount, id);
create index orders_net on orders (organization_id, net_amount, id);
create index orders_customer on orders (organization_id, customer_id, created_at, id);
create index orders_product on orders (organization_id, product_id, created_at, id);
create index orders_discount on orders (organization_id, discount_id, created_at, id);
create index orders_subscription on orders (organization_id, subscription_id, created_at, id);
create trigger orders_come after insert on orders referencing new table as changed for each statement execute function count_rows('orders');
grant select, insert, update on orders to bursar_api, bursar_worker;

create table order_items (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  order_id uuid not null,
  position integer not null,
  label text not null,
  amount bigint not null,
  discount_amount bigint not null,
  net_amount bigint not null,
  tax_amount bigint not null,
  proration boolean not null,
  product_price_id uuid,
  primary key (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, product_price_id) references product_prices (organization_id, id)
);
create index order_items_order on order_items (organization_id, order_id, position);
create index order_items_price on order_items (organization_id, product_price_id);
grant select, insert on order_items to bursar_api, bursar_worker;

-- How the tax of each line came about: written once, never changed.
create table order_taxes (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  order_item_id uuid not null,
  jurisdiction text not null,
  rate integer not null check (rate >= 0),
  behavior text not null check (behavior in ('inclusive', 'exclusive')),
  basis_amount bigint not null,
  tax_amount bigint not null,
  reason text not null check (reason in ('standard_rated', 'not_collecting', 'product_exempt', 'reverse_charge', 'not_subject_to_tax', 'not_supported', 'customer_exempt')),
  primary key (organization_id, id),
  foreign key (organization_id, order_item_id) references order_items (organization_id, id)
);
create index order_taxes_item on order_taxes (organization_id, order_item_id);
grant select, insert on order_taxes to bursar_api, bursar_worker;

-- The last invoice number of each customer: drawn with the order that bears it, so none is ever missing.
create table invoice_counters (
  organization_id uuid not null,
  customer_id uuid not null,
  last_number integer not null,
  primary key (organization_id, customer_id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
grant select, insert, update on invoice_counters to bursar_api, bursar_worker;

-- What is left of what a customer has with us: credit above zero, debt below.
create table customer_balances (
  organization_id uuid not null,
  customer_id uuid not null,
  currency text not null,
  amount bigint not null,
  primary key (organization_id, customer_id, currency),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
grant select, insert, update on customer_balances to bursar_api, bursar_worker;

-- One attempt to take money, or to keep a payment method. The row is there before the processor hears of it, its id is
-- the key it is asked with, and what the processor calls it is committed before money moves.
create table payments (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  account_id uuid not null,
  customer_id uuid not null,
  checkout_id uuid,
  order_id uuid,
  kind text not null check (kind in ('payment', 'setup')),
  status text not null check (status in ('pending', 'succeeded', 'failed')),
  amount bigint not null check (amount >= 0),
  currency text not null,
  -- What pays is kept, to be charged again.
  reusable boolean not null,
  trigger text not null check (trigger in ('purchase', 'subscription_cycle', 'retry_dunning', 'retry_customer', 'retry_payment_method_update', 'retry_admin')),
  intent_id text,
  intent_status text,
  method text,
  method_metadata jsonb,
  processor_method jsonb,
  decline_reason text,
  decline_message text,
  settled_at timestamptz(3),
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, account_id) references payment_accounts (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, checkout_id) references checkouts (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  check ((kind = 'setup') = (amount = 0)),
  check ((status = 'pending') = (settled_at is null))
);
create unique index payments_intent on payments (organization_id, account_id, intent_id) where intent_id is not null;
create index payments_account on payments (organization_id, account_id);
-- One attempt at a time.
create unique index payments_checkout_pending on payments (organization_id, checkout_id) where status = 'pending' and checkout_id is not null;
create unique index payments_order_pending on payments (organization_id, order_id) where status = 'pending' and order_id is not null;
create index payments_checkout on payments (organization_id, checkout_id, created_at);
create index payments_order on payments (organization_id, order_id, created_at);
create index payments_customer on payments (organization_id, customer_id, created_at);
create index payments_created on payments (organization_id, created_at, id) where kind = 'payment';
create index payments_status on payments (organization_id, status, id) where kind = 'payment';
create index payments_amount on payments (organization_id, amount, id) where kind = 'payment';
create index payments_due on payments (due_at) where due_at is not null;
grant select, insert, update on payments to bursar_api, bursar_worker;

alter table checkouts add foreign key (organization_id, payment_id) references payments (organization_id, id);

-- Money that goes back: the row first, under the lock of its order; its id is the key.
create table refunds (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  order_id uuid not null,
  payment_id uuid not null,
  customer_id uuid not null,
  subscription_id uuid,
  status text not null check (status in ('pending', 'succeeded', 'failed', 'canceled')),
  reason text not null,
  amount bigint not null check (amount > 0),
  tax_amount bigint not null check (tax_amount >= 0),
  currency text not null,
  comment text,
  revoke_benefits boolean not null,
  metadata jsonb not null,
  processor_refund_id text,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, payment_id) references payments (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id)
);
create unique index refunds_processor on refunds (organization_id, payment_id, processor_refund_id) where processor_refund_id is not null;
create index refunds_payment on refunds (organization_id, payment_id);
create index refunds_created on refunds (organization_id, created_at, id);
create index refunds_amount on refunds (organization_id, amount, id);
create index refunds_order on refunds (organization_id, order_id, created_at);
create index refunds_customer on refunds (organization_id, customer_id, created_at);
create index refunds_subscription on refunds (organization_id, subscription_id, created_at);
create index refunds_due on refunds (due_at) where due_at is not null;
create trigger refunds_come after insert on refunds referencing new table as changed for each statement execute function count_rows('refunds');
grant select, insert, update on refunds to bursar_api, bursar_worker;

alter table credentials drop constraint credentials_kind_check;
alter table credentials add constraint credentials_kind_check check (kind in (
  'organization', 'personal', 'session', 'invitation', 'customer_session', 'member_session', 'portal_code', 'email_change',
  'oauth_access', 'oauth_refresh', 'oauth_code', 'client_secret', 'client_registration', 'sign_in', 'checkout'));

-- A request that takes several steps keeps its key with the first of them: whoever comes back goes on from there.
alter table idempotency_keys alter column status drop not null;
alter table idempotency_keys add column intent jsonb, add column busy_until timestamptz;
grant update (status, headers, body, sealed, mentions, busy_until) on idempotency_keys to bursar_api;

call note_changes_of('payment_accounts', 'checkouts', 'discount_redemptions', 'subscriptions', 'orders', 'payments', 'refunds');
