-- The test processor's own books. It stands for somebody else's system: nobody who serves may look into them, and it may look at nothing of ours.

create schema test_processor;
grant usage on schema test_processor to bursar_processor;

-- A card as it was entered; it may be charged again between being kept and being forgotten.
create table test_processor.methods (
  account text not null,
  id text not null,
  created_at timestamptz(3) not null,
  customer text not null,
  token text not null,
  kept_at timestamptz(3),
  forgotten_at timestamptz(3),
  primary key (account, id)
);
grant select, insert, update on test_processor.methods to bursar_processor;

create table test_processor.intents (
  account text not null,
  id text not null,
  created_at timestamptz(3) not null,
  kind text not null check (kind in ('payment', 'setup')),
  status text not null check (status in ('requires_confirmation', 'requires_action', 'processing', 'succeeded', 'failed', 'canceled')),
  amount bigint not null check (amount >= 0),
  currency text not null,
  customer text not null,
  client_secret text not null unique,
  metadata jsonb not null,
  reusable boolean not null,
  method_id text,
  decline_code text,
  -- Requests that were lost on their way.
  lost integer not null default 0,
  settles_at timestamptz(3),
  primary key (account, id),
  foreign key (account, method_id) references test_processor.methods (account, id),
  check ((kind = 'setup') = (amount = 0)),
  check ((status = 'failed') = (decline_code is not null)),
  check ((status = 'processing') = (settles_at is not null))
);
create index intents_method on test_processor.intents (account, method_id);
create index intents_customer on test_processor.intents (account, customer, created_at);
create index intents_settling on test_processor.intents (settles_at) where settles_at is not null;
grant select, insert, update on test_processor.intents to bursar_processor;

-- Money that moved. Never changed, never removed; an intent is charged once.
create table test_processor.charges (
  account text not null,
  intent_id text not null,
  amount bigint not null check (amount > 0),
  currency text not null,
  customer text not null,
  metadata jsonb not null,
  charged_at timestamptz(3) not null,
  primary key (account, intent_id),
  foreign key (account, intent_id) references test_processor.intents (account, id)
);
grant select, insert on test_processor.charges to bursar_processor;

create table test_processor.refunds (
  account text not null,
  id text not null,
  created_at timestamptz(3) not null,
  intent_id text not null,
  status text not null check (status in ('pending', 'succeeded', 'failed', 'canceled')),
  amount bigint not null check (amount > 0),
  currency text not null,
  metadata jsonb not null,
  settles_at timestamptz(3),
  settles_to text check (settles_to in ('succeeded', 'failed')),
  primary key (account, id),
  foreign key (account, intent_id) references test_processor.charges (account, intent_id),
  check ((settles_at is null) = (settles_to is null))
);
create index refunds_intent on test_processor.refunds (account, intent_id, created_at);
create index refunds_settling on test_processor.refunds (settles_at) where settles_at is not null;
grant select, insert, update on test_processor.refunds to bursar_processor;

-- What was asked under a key, and what was answered, to the letter: hence `json`.
create table test_processor.keys (
  account text not null,
  key text not null,
  fingerprint text not null,
  answer json not null,
  expires_at timestamptz(3) not null,
  primary key (account, key)
);
create index keys_expiry on test_processor.keys (account, expires_at);
grant select, insert, update, delete on test_processor.keys to bursar_processor;

-- What is to be told, when, and whether it has been handed out. One event may be told twice.
create table test_processor.callbacks (
  account text not null,
  position bigint generated always as identity,
  event_id text not null,
  kind text not null check (kind in ('intent.succeeded', 'intent.failed', 'intent.requires_action', 'refund.updated')),
  object_id text not null,
  happened_at timestamptz(3) not null,
  due_at timestamptz(3) not null,
  taken_at timestamptz(3),
  primary key (account, position)
);
create index callbacks_due on test_processor.callbacks (account, due_at, position) where taken_at is null;
grant select, insert, update on test_processor.callbacks to bursar_processor;
