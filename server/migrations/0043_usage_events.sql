-- Usage events: the rows of ingest, their idempotency keys, and the customers that they are about.

-- One row for each call of ingest. The ids of a batch and of its events begin with the same millisecond, so the primary key
-- of the events finds the events of a batch. `xid` is the transaction of the call. A copy of the events must not skip a batch that
-- commits late, and compares this column with the oldest running transaction.
create table usage_batches (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  xid xid8 not null default pg_current_xact_id(),
  events integer not null check (events > 0),
  primary key (organization_id, id)
);
grant select, insert on usage_batches to bursar_api;
grant select on usage_batches to bursar_worker;

-- The customer of events. The row of a customer has the id of that customer. Events with an external customer id that no
-- customer has yet get a row of their own, and this row is linked to the customer that later takes the external id. So a
-- customer can have several rows.
create table usage_subjects (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  -- Null until a customer has the external id.
  customer_id uuid,
  -- The external customer id of the events. Null for the row of a customer.
  external_id text,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  check (customer_id is not null or external_id is not null)
);
create unique index usage_subjects_unknown on usage_subjects (organization_id, external_id) where customer_id is null;
-- Subjects without a customer are left out. Otherwise PostgreSQL may look for one of them among all of them.
create index usage_subjects_customer on usage_subjects (organization_id, customer_id) where customer_id is not null;
-- A periodic task links recent subjects every few seconds.
create index usage_subjects_unlinked on usage_subjects (created_at) where customer_id is null;
grant select, insert, update on usage_subjects to bursar_api;
grant select, update on usage_subjects to bursar_worker;

-- The member of a customer that caused events. The row of a member has the id of that member. An external member id that
-- no member has yet gets a row of its own, and this row is linked to the member that later takes the external id.
create table usage_members (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  subject_id uuid not null,
  member_id uuid,
  external_id text,
  primary key (organization_id, id),
  foreign key (organization_id, subject_id) references usage_subjects (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id) on delete set null (member_id)
);
create unique index usage_members_unknown on usage_members (organization_id, subject_id, external_id) where member_id is null and external_id is not null;
create index usage_members_subject on usage_members (organization_id, subject_id);
create index usage_members_member on usage_members (organization_id, member_id) where member_id is not null;
create index usage_members_unlinked on usage_members (created_at) where member_id is null and external_id is not null;
grant select, insert, update on usage_members to bursar_api;
grant select, update on usage_members to bursar_worker;

-- An id begins with the time of its ingest. So the id of an event names its partition, and the key stays (organization_id, id).
-- No foreign key leaves this table: they would cost one check for each event. The rows that it references are inserted in
-- the same transaction, and no role may delete them.
create table usage_events (
  organization_id uuid not null,
  id uuid not null,
  batch_id uuid not null,
  subject_id uuid not null,
  -- The row of usage_members. Null if the event names no member.
  member_ref uuid,
  -- The time at which the usage happened. The time of ingest is in the id.
  timestamp timestamptz(3) not null,
  name text not null,
  source text not null check (source in ('user', 'system')),
  external_id text,
  -- Numbers are exact decimals. Prompts and responses of language models are in usage_texts.
  metadata jsonb not null check (jsonb_typeof(metadata) = 'object'),
  parent_id uuid,
  -- The id or external id of the parent, until the parent arrives.
  awaited_parent text,
  -- The number of ancestors that have arrived.
  depth smallint not null check (depth between 0 and 100),
  primary key (organization_id, id),
  check (parent_id is null or awaited_parent is null),
  check (parent_id is distinct from id),
  check (depth = 0 or parent_id is not null)
) partition by range (id);
create index usage_events_subject on usage_events (organization_id, subject_id, name, timestamp);
create index usage_events_timestamp on usage_events (organization_id, timestamp, id);
create index usage_events_name on usage_events (organization_id, name, timestamp, id);
create index usage_events_parent on usage_events (organization_id, parent_id, timestamp) where parent_id is not null;
create index usage_events_awaiting on usage_events (organization_id, awaited_parent) where awaited_parent is not null;
-- Takes the events of a month whose partition is missing. The partition task moves them.
create table usage_events_default partition of usage_events default;
grant select, insert on usage_events to bursar_api;
-- A parent may arrive after its children.
grant update (parent_id, awaited_parent, depth) on usage_events to bursar_api;
grant select on usage_events to bursar_worker;

-- The external ids of all events ever ingested. The partitions cannot guarantee this: a unique index on them contains the
-- id, and the same event sent in the next month would count twice.
create table usage_keys (
  organization_id uuid not null,
  external_id text not null,
  event_id uuid not null,
  primary key (organization_id, external_id)
);
grant select, insert on usage_keys to bursar_api;
grant select on usage_keys to bursar_worker;

-- What language models were asked and answered. Personal data, so it is erased with the customer of the subject.
create table usage_texts (
  organization_id uuid not null,
  -- The id of the event.
  id uuid not null,
  subject_id uuid not null,
  prompt text,
  response text,
  primary key (organization_id, id)
);
-- A job erases the texts of a customer. Erased texts are not in the index, so the job finds the others at once.
create index usage_texts_subject on usage_texts (organization_id, subject_id) where prompt is not null or response is not null;
grant select, insert, update on usage_texts to bursar_api;
grant select, update on usage_texts to bursar_worker;

-- The label of each event name. A row appears with the first event of that name.
create table event_types (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  name text not null,
  label text not null,
  label_property_selector text,
  primary key (organization_id, id)
);
create unique index event_types_name on event_types (organization_id, name);
grant select, insert, update on event_types to bursar_api;
grant select on event_types to bursar_worker;
call note_changes_of('event_types');

-- How often each name occurs. Each call of ingest appends one row for each name, and a periodic task merges the rows in the
-- sequence of their positions. A name has at most one merged row. The occurrences of a name are the sum of all its rows.
create table usage_name_counts (
  organization_id uuid not null,
  name text not null,
  source text not null,
  occurrences bigint not null,
  first_seen timestamptz(3) not null,
  last_seen timestamptz(3) not null,
  position bigint generated always as identity,
  is_merged boolean not null default false
);
create index usage_name_counts_name on usage_name_counts (organization_id, name, source);
create index usage_name_counts_merged on usage_name_counts (organization_id, name, source) where is_merged;
create index usage_name_counts_unmerged on usage_name_counts (position) where not is_merged;
grant select, insert on usage_name_counts to bursar_api;
grant select, insert, delete on usage_name_counts to bursar_worker;

-- The lowest id of the events that are ingested from this moment on.
create function first_id_at(moment timestamptz) returns uuid language sql immutable strict parallel safe as $$
  select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

-- Makes the partitions of the months around a date. If events of a missing month are in the default partition, moves them.
create function ensure_usage_parts(today date) returns integer language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  made integer := 0;
  first timestamptz;
  low uuid;
  high uuid;
  part text;
begin
  if today < current_date - 400 or today > current_date + 400 then
    raise exception 'partitions are made for at most 400 days before or after today';
  end if;
  for month in -1..3 loop
    first := (date_trunc('month', today::timestamp) + month * interval '1 month') at time zone 'UTC';
    part := 'usage_events_' || to_char(first at time zone 'UTC', 'YYYYMM');
    if to_regclass('public.' || part) is null then
      low := public.first_id_at(first);
      high := public.first_id_at((first at time zone 'UTC' + interval '1 month') at time zone 'UTC');
      -- No event may arrive in the default partition between the move and the attachment.
      lock table public.usage_events_default in access exclusive mode;
      execute format('create table public.%I (like public.usage_events including defaults including constraints including indexes)', part);
      execute format('with moved as (delete from public.usage_events_default where id >= %L and id < %L returning *) insert into public.%I select * from moved', low, high, part);
      execute format('alter table public.usage_events attach partition public.%I for values from (%L) to (%L)', part, low, high);
      made := made + 1;
    end if;
  end loop;
  return made;
end
$$;
revoke all on function ensure_usage_parts(date) from public;
grant execute on function ensure_usage_parts(date) to bursar_worker;
select ensure_usage_parts(current_date);

-- Links the events of an external customer id to the customer that takes this external id.
create function link_usage_subject() returns trigger language plpgsql as $$
begin
  if new.deleted_at is null then
    update usage_subjects set customer_id = new.id
    where organization_id = new.organization_id and external_id = new.external_id and customer_id is null;
  end if;
  return null;
end
$$;
create trigger usage_subjects_link after insert or update of external_id on customers
  for each row when (new.external_id is not null) execute function link_usage_subject();

-- Links the members of a subject that has just been linked to its customer, by any of the ways to link it.
create function link_members_of_subject() returns trigger language plpgsql as $$
begin
  update usage_members u set member_id = m.id from members m
  where u.organization_id = new.organization_id and u.subject_id = new.id and u.member_id is null
    and m.organization_id = new.organization_id and m.customer_id = new.customer_id and m.external_id = u.external_id and m.deleted_at is null;
  return null;
end
$$;
create trigger usage_subjects_members after update of customer_id on usage_subjects
  for each row when (old.customer_id is null and new.customer_id is not null) execute function link_members_of_subject();

create function link_usage_member() returns trigger language plpgsql as $$
begin
  if new.deleted_at is null then
    update usage_members u set member_id = new.id from usage_subjects s
    where s.organization_id = new.organization_id and s.customer_id = new.customer_id
      and u.organization_id = s.organization_id and u.subject_id = s.id and u.member_id is null and u.external_id = new.external_id;
  end if;
  return null;
end
$$;
create trigger usage_members_link after insert or update of external_id on members
  for each row when (new.external_id is not null) execute function link_usage_member();

-- Customers that were erased lately. Rows about them may be inserted while they are erased, so a periodic task erases again.
create index customers_forgotten on customers (forgotten_at) where forgotten_at is not null;

-- Notes changes as before, in time that grows with the number of rows. The first events of many customers update many rows.
-- `length` and `right` read the whole text for each row. A second setting says that the text is full.
create or replace function note_change() returns trigger language plpgsql as $$
declare
  noted text;
begin
  if current_user = 'bursar_worker' or current_setting('bursar.changes_full', true) = 'yes' then
    return null;
  end if;
  noted := coalesce(current_setting('bursar.changes', true), '');
  -- Beyond this size, the audit log says only that there were more changes.
  if octet_length(noted) > 500000 then
    perform set_config('bursar.changes', noted || 'more', true);
    perform set_config('bursar.changes_full', 'yes', true);
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
