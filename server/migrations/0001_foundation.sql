-- The deployment's own facts, jobs, and the event log: what every area stands on.

-- One row. A process whose environment differs from this stamp refuses to start.
create table deployment (
  singleton boolean primary key default true check (singleton),
  id uuid not null,
  environment text not null check (environment in ('sandbox', 'production')),
  stamped_at timestamptz not null,
  sign_up_open boolean not null default false,
  organization_creation_open boolean not null default false
);
grant select on deployment to bursar_api, bursar_worker;

-- The only way into the job queue for the roles that serve requests: insert, never read, change or run.
create function enqueue_job(name text, payload jsonb) returns void
  language sql security definer set search_path = pg_catalog, pg_temp
  as $$ select from graphile_worker.add_job(identifier => name, payload => payload::json) $$;
grant create on schema public to bursar_jobs;
alter function enqueue_job(text, jsonb) owner to bursar_jobs;
revoke create on schema public from bursar_jobs;
revoke all on function enqueue_job(text, jsonb) from public;
grant execute on function enqueue_job(text, jsonb) to bursar_api, bursar_worker;

create table organizations (
  id uuid primary key,
  created_at timestamptz not null,
  modified_at timestamptz,
  deleted_at timestamptz,
  name text not null,
  slug text not null unique,
  avatar_url text,
  email text,
  website text,
  socials jsonb not null default '[]',
  status text not null check (status in ('created', 'review', 'snoozed', 'denied', 'active', 'blocked', 'offboarding', 'offboarded')),
  status_changed_at timestamptz not null,
  details jsonb,
  legal_entity jsonb,
  details_submitted_at timestamptz,
  onboarding_resubmission_requested_at timestamptz,
  sso_enforced boolean not null default false,
  default_presentment_currency text not null,
  default_tax_behavior text not null,
  feature_settings jsonb not null,
  subscription_settings jsonb not null,
  notification_settings jsonb not null,
  customer_email_settings jsonb not null,
  customer_portal_settings jsonb not null,
  dispute_settings jsonb not null,
  embed_hosts jsonb not null default '[]',
  country text
);
grant select, insert, update on organizations to bursar_api, bursar_worker;

-- Everything that happened, in the words of a webhook. `position` is drawn while the resource's row is locked;
-- `sequence` is given after commit, gap-free within the organization, by one sequencer at a time.
create table events (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  position bigint generated always as identity,
  sequence bigint,
  kind text not null,
  resource_id uuid not null,
  customer_id uuid,
  api_version text not null,
  payload jsonb not null,
  business_at timestamptz not null,
  wall_at timestamptz not null,
  primary key (organization_id, id)
);
create unique index events_sequence on events (organization_id, sequence) where sequence is not null;
create index events_unnumbered on events (organization_id, position) where sequence is null;
grant select, insert on events to bursar_api;
grant select, insert on events to bursar_worker;
grant update (sequence) on events to bursar_worker;

create table event_heads (
  organization_id uuid primary key references organizations (id),
  last_sequence bigint not null
);
grant select, insert, update on event_heads to bursar_worker;
grant select on event_heads to bursar_api;
