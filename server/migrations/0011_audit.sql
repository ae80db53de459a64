-- Who changed what: written with every change, numbered and chained after it, never changed again. And what a person's
-- being forgotten needs.

create table audit_log (
  -- The nil id: changes that belong to no organization.
  organization_id uuid not null,
  id uuid not null,
  position bigint generated always as identity,
  sequence bigint,
  at timestamptz(3) not null,
  operation text not null,
  request_id uuid not null,
  actor_kind text not null check (actor_kind in ('organization', 'user', 'customer', 'member', 'anonymous')),
  actor_id uuid,
  credential_id uuid,
  client_id text,
  resource_id uuid,
  -- The exact text that is hashed.
  changes json not null,
  hash text,
  primary key (organization_id, id, at),
  check ((sequence is null) = (hash is null))
) partition by range (at);
create index audit_log_sequence on audit_log (organization_id, sequence) where sequence is not null;
create index audit_log_unchained on audit_log (organization_id, position) where sequence is null;
create index audit_log_resource on audit_log (organization_id, resource_id, sequence) where resource_id is not null;
create index audit_log_actor on audit_log (organization_id, actor_id, sequence) where actor_id is not null;
create table audit_log_default partition of audit_log default;
grant select, insert on audit_log to bursar_api, bursar_worker;
grant update (sequence, hash) on audit_log to bursar_worker;

-- The grant lets the sequencer number a row; this lets it do so once.
create function chain_once() returns trigger language plpgsql as $$
begin
  if old.sequence is not null then
    raise exception 'what is in the chain stays as it is';
  end if;
  return new;
end
$$;
create trigger audit_log_once before update on audit_log for each row execute function chain_once();

create table audit_heads (
  organization_id uuid primary key,
  sequence bigint not null,
  hash text not null
);
grant select, insert, update on audit_heads to bursar_worker;
grant select on audit_heads to bursar_api;

create or replace function ensure_parts(today date) returns integer language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  made integer := 0;
  first date;
  parent text;
begin
  if today < current_date - 400 or today > current_date + 400 then
    raise exception 'parts are made for about now';
  end if;
  foreach parent in array array['events', 'webhook_attempts', 'audit_log'] loop
    for month in -1..3 loop
      first := (date_trunc('month', today) + month * interval '1 month')::date;
      if to_regclass(format('public.%I', parent || '_' || to_char(first, 'YYYYMM'))) is null then
        execute format('create table public.%I partition of public.%I for values from (%L) to (%L)', parent || '_' || to_char(first, 'YYYYMM'), parent, first, (first + interval '1 month')::date);
        made := made + 1;
      end if;
    end loop;
  end loop;
  return made;
end
$$;
select ensure_parts(current_date);

-- Notes every row that a transaction changes, as it was and as it is, in a setting of the transaction's own: nothing is
-- written here. Whoever answers for the transaction reads it at the end and records it, without what must not be told.
create function note_change() returns trigger language plpgsql as $$
declare
  noted text := coalesce(current_setting('bursar.changes', true), '');
begin
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

-- Every table whose rows somebody answers for.
create procedure note_changes_of(variadic tables text[]) language plpgsql as $$
declare
  name text;
begin
  foreach name in array tables loop
    execute format('create trigger note_changes after insert or delete on %I for each row execute function note_change()', name);
    execute format('create trigger note_updates after update on %I for each row when (old.* is distinct from new.*) execute function note_change()', name);
  end loop;
end
$$;
revoke all on procedure note_changes_of(text[]) from public;
call note_changes_of(
  'organizations', 'organization_members', 'organization_invitations', 'organization_access_tokens',
  'users', 'personal_access_tokens', 'user_sessions', 'second_factors', 'oauth_clients', 'oauth_grants',
  'products', 'product_prices', 'product_custom_fields', 'custom_fields', 'product_benefits', 'benefits', 'discounts', 'discount_products', 'meters',
  'customers', 'members', 'payment_methods', 'customer_sessions', 'customer_email_changes',
  'webhook_endpoints', 'webhook_replays'
);

-- Whom a stored answer speaks of, so that it can be forgotten with them.
alter table idempotency_keys add column mentions uuid[] not null default '{}';
create index idempotency_keys_mentions on idempotency_keys using gin (mentions);
grant update (body, sealed) on idempotency_keys to bursar_worker;
-- When a customer's person was forgotten: what was written before may speak of them.
alter table customers add column forgotten_at timestamptz(3);
-- What a receiver answered may repeat what it was sent.
grant update (response) on webhook_attempts to bursar_worker;
create index events_customer on events (organization_id, customer_id) where customer_id is not null and payload is not null;
create index webhook_attempts_event on webhook_attempts (organization_id, event_id);
