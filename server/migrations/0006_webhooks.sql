-- The event log grows by the month; and who is told of what happened, whether it has arrived, and what came back.

-- Payloads keep their exact bytes, which `json` does and `jsonb` does not. The log is split by the time of writing,
-- which an event's id carries: whoever knows the id knows the part.
alter table events rename to events_before;
alter index events_sequence rename to events_before_sequence;
alter index events_unnumbered rename to events_before_unnumbered;
alter table events_before rename constraint events_pkey to events_before_pkey;
create table events (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  position bigint generated always as identity,
  sequence bigint,
  kind text not null,
  resource_id uuid not null,
  customer_id uuid,
  api_version text not null,
  -- Null once it has been archived.
  payload json,
  business_at timestamptz not null,
  wall_at timestamptz(3) not null,
  primary key (organization_id, id, wall_at)
) partition by range (wall_at);
create index events_sequence on events (organization_id, sequence) where sequence is not null;
create index events_unnumbered on events (organization_id, position) where sequence is null;
create index events_resource on events (organization_id, resource_id, sequence);
create index events_full on events (wall_at) where payload is not null;

create table webhook_attempts (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  event_at timestamptz(3) not null,
  kind text not null,
  succeeded boolean not null,
  http_code smallint,
  response text,
  duration_ms integer not null,
  primary key (organization_id, id, created_at)
) partition by range (created_at);
create index webhook_attempts_created on webhook_attempts (organization_id, created_at, id);
create index webhook_attempts_endpoint on webhook_attempts (organization_id, endpoint_id, created_at, id);

-- A part for every month up to three months ahead; run by a chore, long before a part is needed.
create function ensure_parts(today date) returns integer language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  made integer := 0;
  first date;
  parent text;
begin
  if today < current_date - 400 or today > current_date + 400 then
    raise exception 'parts are made for about now';
  end if;
  foreach parent in array array['events', 'webhook_attempts'] loop
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
revoke all on function ensure_parts(date) from public;
grant execute on function ensure_parts(date) to bursar_worker;
create table events_default partition of events default;
create table webhook_attempts_default partition of webhook_attempts default;
select ensure_parts(current_date);

insert into events (organization_id, id, sequence, kind, resource_id, customer_id, api_version, payload, business_at, wall_at)
  select organization_id, id, sequence, kind, resource_id, customer_id, api_version, payload::json, business_at, wall_at from events_before order by position;
drop table events_before;
grant select, insert on events to bursar_api, bursar_worker;
grant update (sequence, payload) on events to bursar_worker;
grant select on webhook_attempts to bursar_api;
grant select, insert on webhook_attempts to bursar_worker;

create table webhook_endpoints (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  url text not null,
  name text,
  format text not null check (format in ('raw', 'discord', 'slack')),
  events text[] not null,
  enabled boolean not null,
  strict boolean not null,
  api_version text not null,
  paused_reason text check (paused_reason in ('by_hand', 'failing', 'gone')),
  failing_since timestamptz(3),
  secret_sealed text not null,
  secret_hint text not null,
  previous_sealed text,
  previous_secret_until timestamptz(3),
  primary key (organization_id, id),
  check (enabled = (paused_reason is null))
);
create index webhook_endpoints_created on webhook_endpoints (organization_id, created_at, id) where deleted_at is null;
grant select, insert, update on webhook_endpoints to bursar_api;
grant select, update on webhook_endpoints to bursar_worker;

-- One event for one endpoint. `due_at` is set while it is its turn: events of one lane (a customer, else a resource)
-- take turns. Parked ones are kept and not tried.
create table webhook_deliveries (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  endpoint_id uuid not null,
  event_id uuid not null,
  event_at timestamptz(3) not null,
  sequence bigint not null,
  kind text not null,
  lane uuid not null,
  status text not null check (status in ('waiting', 'delivered', 'parked', 'skipped')),
  attempts smallint not null default 0,
  last_http_code smallint,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, endpoint_id) references webhook_endpoints (organization_id, id),
  check (due_at is null or status = 'waiting')
  -- Room on each page, so that taking a lease, which no index knows of, writes nothing but the row.
) with (fillfactor = 70);
create unique index webhook_deliveries_once on webhook_deliveries (organization_id, event_id, endpoint_id);
create index webhook_deliveries_lane on webhook_deliveries (organization_id, endpoint_id, lane, sequence) where status = 'waiting';
create index webhook_deliveries_parked on webhook_deliveries (organization_id, endpoint_id, sequence) where status = 'parked';
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_at) where due_at is not null;
grant select, insert, update on webhook_deliveries to bursar_api, bursar_worker;

-- Every worker that may hold leases: whoever finds that one of them has died frees what it held.
create table worker_lives (
  holder text primary key,
  born_at timestamptz not null
);
grant select, insert, delete on worker_lives to bursar_worker;

create table webhook_replays (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  endpoint_id uuid not null,
  next_sequence bigint not null,
  last_sequence bigint not null,
  since timestamptz(3),
  include_delivered boolean not null,
  total integer not null,
  queued integer not null,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, endpoint_id) references webhook_endpoints (organization_id, id)
);
create index webhook_replays_endpoint on webhook_replays (organization_id, endpoint_id);
create index webhook_replays_due on webhook_replays (due_at) where due_at is not null;
drop index organization_invitations_leased;
grant select, insert on webhook_replays to bursar_api;
grant select, update on webhook_replays to bursar_worker;
