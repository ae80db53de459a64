-- What happened to money, in double entry; and by which rates it is taxed.

-- One fact: an order that was billed, money that came or went, a balance that was adjusted.
create table ledger_transactions (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  at timestamptz(3) not null,
  business_at timestamptz(3) not null,
  kind text not null check (kind in ('order_billed', 'payment_received', 'refund_paid', 'refund_reversed', 'balance_adjusted')),
  -- The order, payment, refund or adjustment that it is about.
  reference uuid not null,
  -- How many entries it has, so that none can be added afterwards.
  entry_count integer not null check (entry_count > 0),
  primary key (organization_id, id)
);
-- One fact is written once.
create unique index ledger_transactions_fact on ledger_transactions (organization_id, kind, reference);
grant select, insert on ledger_transactions to bursar_api, bursar_worker;

-- Where it came from and where it went: debits above zero, credits below.
create table ledger_entries (
  organization_id uuid not null,
  transaction_id uuid not null,
  position integer not null check (position >= 0),
  account text not null check (account in ('processor', 'receivable', 'revenue', 'tax', 'customer_balance')),
  customer_id uuid not null,
  -- With which processor's account the money lies.
  payment_account_id uuid,
  amount bigint not null check (amount <> 0),
  currency text not null,
  primary key (organization_id, transaction_id, position),
  foreign key (organization_id, transaction_id) references ledger_transactions (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, payment_account_id) references payment_accounts (organization_id, id),
  check ((account = 'processor') = (payment_account_id is not null))
);
-- An organization's balances are sums over the first of these, a customer's over the second: there is no row that all writers want.
create index ledger_entries_account on ledger_entries (organization_id, account, currency) include (amount);
create index ledger_entries_customer on ledger_entries (organization_id, customer_id, account, currency) include (amount);
create index ledger_entries_payment_account on ledger_entries (organization_id, payment_account_id, currency) include (amount) where payment_account_id is not null;
grant select, insert on ledger_entries to bursar_api, bursar_worker;

-- At commit, when all of it is there: a transaction has the entries it says, and they sum to zero in each currency.
create function check_ledger_transaction() returns trigger language plpgsql as $$
declare
  checked uuid;
begin
  if tg_table_name = 'ledger_entries' then
    checked := new.transaction_id;
  else
    checked := new.id;
  end if;
  if exists (
    select from public.ledger_entries e where e.organization_id = new.organization_id and e.transaction_id = checked
    group by e.currency having sum(e.amount) <> 0
  ) then
    raise exception 'the entries of ledger transaction % do not sum to zero', checked using errcode = 'check_violation', constraint = 'ledger_balanced';
  end if;
  if not exists (
    select from public.ledger_transactions t where t.organization_id = new.organization_id and t.id = checked
      and t.entry_count = (select count(*) from public.ledger_entries e where e.organization_id = new.organization_id and e.transaction_id = checked)
  ) then
    raise exception 'ledger transaction % does not have the entries it says', checked using errcode = 'check_violation', constraint = 'ledger_complete';
  end if;
  return null;
end
$$;
create constraint trigger ledger_transactions_balance after insert on ledger_transactions deferrable initially deferred for each row execute function check_ledger_transaction();
create constraint trigger ledger_entries_balance after insert on ledger_entries deferrable initially deferred for each row execute function check_ledger_transaction();

-- The grants keep everybody who serves from it; this keeps the owner from it too.
create function refuse_ledger_change() returns trigger language plpgsql as $$
begin
  raise exception 'the ledger is only ever added to: % of % is refused', lower(tg_op), tg_table_name using errcode = 'insufficient_privilege';
end
$$;
create trigger ledger_transactions_stay before update or delete or truncate on ledger_transactions for each statement execute function refuse_ledger_change();
create trigger ledger_entries_stay before update or delete or truncate on ledger_entries for each statement execute function refuse_ledger_change();

-- Who says what tax is due.
create table tax_settings (
  organization_id uuid primary key references organizations (id),
  modified_at timestamptz(3) not null,
  provider text not null check (provider in ('none', 'rates'))
);
grant select, insert, update on tax_settings to bursar_api;
grant select on tax_settings to bursar_worker;

-- An organization's own rates: of a country, or of one of its states.
create table tax_rates (
  organization_id uuid not null references tax_settings (organization_id),
  id uuid not null,
  country text not null,
  state text,
  -- Parts per million.
  rate integer not null check (rate between 0 and 1000000),
  reverse_charge boolean not null,
  primary key (organization_id, id),
  constraint tax_rates_place unique nulls not distinct (organization_id, country, state),
  check (state like country || '-%')
);
grant select, insert, update, delete on tax_rates to bursar_api;
grant select on tax_rates to bursar_worker;

call note_changes_of('tax_settings', 'tax_rates');
