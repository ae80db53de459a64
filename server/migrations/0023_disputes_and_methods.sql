-- Payers who ask their bank for the money back, and what customers keep to pay with.

-- One dispute about one payment: what the processor says of it, and what we have made of that.
create table disputes (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  account_id uuid not null,
  processor_dispute_id text not null,
  order_id uuid not null,
  payment_id uuid not null,
  customer_id uuid not null,
  status text not null check (status in ('early_warning', 'needs_response', 'under_review', 'won', 'lost', 'prevented')),
  -- Without tax; together they are what the payer wants back.
  amount bigint not null check (amount >= 0),
  tax_amount bigint not null check (tax_amount >= 0),
  currency text not null,
  reason text,
  evidence_due_by timestamptz(3),
  past_due boolean not null,
  -- The seller gave it up: the processor is to be told, whatever happens in between.
  accepted_at timestamptz(3),
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, account_id) references payment_accounts (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, payment_id) references payments (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
-- However often and in whatever order a processor tells of it.
create unique index disputes_processor on disputes (organization_id, account_id, processor_dispute_id);
create index disputes_created on disputes (organization_id, created_at, id);
create index disputes_amount on disputes (organization_id, amount, id);
create index disputes_status on disputes (organization_id, status, created_at, id);
create index disputes_order on disputes (organization_id, order_id, created_at, id);
create index disputes_payment on disputes (organization_id, payment_id);
create index disputes_customer on disputes (organization_id, customer_id);
create index disputes_due on disputes (due_at) where due_at is not null;
create trigger disputes_come after insert on disputes referencing new table as changed for each statement execute function count_rows('disputes');
grant select, insert, update on disputes to bursar_api, bursar_worker;

-- What went back because of a dispute that was prevented by it: once.
alter table refunds add column dispute_id uuid;
alter table refunds add foreign key (organization_id, dispute_id) references disputes (organization_id, id);
create unique index refunds_dispute on refunds (organization_id, dispute_id) where dispute_id is not null;

-- Money that a processor keeps while a bank decides.
alter table ledger_transactions drop constraint ledger_transactions_kind_check;
alter table ledger_transactions add constraint ledger_transactions_kind_check check (kind in (
  'order_billed', 'order_voided', 'payment_received', 'refund_paid', 'refund_reversed', 'balance_adjusted',
  'dispute_withheld', 'dispute_returned', 'dispute_lost'));
alter table ledger_entries drop constraint ledger_entries_account_check;
alter table ledger_entries add constraint ledger_entries_account_check
  check (account in ('processor', 'receivable', 'revenue', 'tax', 'customer_balance', 'disputed'));

alter table payments
  -- What is kept by it becomes the default.
  add column sets_default boolean not null default false,
  -- A dispute that came before the order that it is about: it is looked into with the order.
  add column early_dispute text;
create index payments_setups on payments (organization_id, customer_id, id) where kind = 'setup';

-- The processor has been told that it is not wanted any more.
alter table payment_methods add column forgotten_at timestamptz(3);
grant update (modified_at, deleted_at, forgotten_at) on payment_methods to bursar_api, bursar_worker;

-- The test processor's own record of them.
create table test_processor.disputes (
  account text not null,
  id text not null,
  created_at timestamptz(3) not null,
  intent_id text not null,
  status text not null check (status in ('early_warning', 'needs_response', 'under_review', 'won', 'lost', 'prevented')),
  amount bigint not null check (amount > 0),
  currency text not null,
  reason text not null,
  respond_by timestamptz(3),
  settles_at timestamptz(3),
  settles_to text,
  primary key (account, id),
  foreign key (account, intent_id) references test_processor.charges (account, intent_id),
  check ((settles_at is null) = (settles_to is null))
);
create index disputes_intent on test_processor.disputes (account, intent_id, created_at);
create index disputes_settling on test_processor.disputes (settles_at) where settles_at is not null;
grant select, insert, update on test_processor.disputes to bursar_processor;
alter table test_processor.callbacks drop constraint callbacks_kind_check;
alter table test_processor.callbacks add constraint callbacks_kind_check
  check (kind in ('intent.succeeded', 'intent.failed', 'intent.requires_action', 'refund.updated', 'dispute.updated'));

call note_changes_of('disputes');
