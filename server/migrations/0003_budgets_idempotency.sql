-- Budgets against guessing, for while Redis is away; and the answers to requests that may come twice.

create table budget_spends (
  key text not null,
  spent_at timestamptz not null
);
create index budget_spends_key on budget_spends (key, spent_at desc);
create index budget_spends_age on budget_spends (spent_at);
grant select, insert on budget_spends to bursar_api;
grant select, delete on budget_spends to bursar_worker;

alter table sign_in_codes add column requests smallint not null default 1;

-- One row per key that a caller has used: written with the effect it stands for, in the same transaction.
create table idempotency_keys (
  owner text not null,
  key text not null,
  operation text not null,
  fingerprint text not null,
  status smallint not null,
  headers jsonb not null,
  body text,
  -- The body is sealed under a key made from the caller's own credential: it holds a secret.
  sealed boolean not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  primary key (owner, key)
);
create index idempotency_keys_expiry on idempotency_keys (expires_at);
grant select, insert, delete on idempotency_keys to bursar_api;
grant select, delete on idempotency_keys to bursar_worker;
