-- Meters count usage events: totals of quarter hours, which ingest appends and a periodic task merges.

-- Set by the first order line that bills usage of the meter. From then on, its filter and its aggregation cannot change.
alter table meters add column billed_at timestamptz(3);

-- The order of the batches of ingest. The number is taken under the lock of `hold_meters`.
alter table usage_batches add column number bigint generated always as identity;
grant usage on sequence usage_batches_number_seq to bursar_api, bursar_worker;

-- How a meter counts. A change of the filter or the aggregation begins a new version, and the totals of earlier versions
-- are void. Ingest counts the events of later batches. The backfill counts the events of batches before `before_batch`, in the
-- sequence of their ids, up to `until_event`.
create table usage_meters (
  organization_id uuid not null,
  -- The id of the meter.
  id uuid not null,
  version integer not null,
  before_batch bigint not null,
  -- The last event that the backfill has counted or skipped.
  after_event uuid,
  -- The last event that was stored when the version began. Null if there was none. So the backfill ends, however many events arrive.
  until_event uuid,
  -- When the backfill ended. Until then, quantities are computed from the events.
  counted_at timestamptz(3),
  -- The meter is archived, and no subscription uses it. Neither ingest nor the backfill counts events on it.
  is_stopped boolean not null default false,
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, id) references meters (organization_id, id)
);
create index usage_meters_due on usage_meters (due_at) where due_at is not null;
grant select, insert, update on usage_meters to bursar_api, bursar_worker;

-- The usage of a subject on a meter in a quarter hour, by the time of the events. Several rows of the same quarter hour add
-- up: ingest appends a row for each batch, and never waits for another. The periodic task merges them.
create table usage_quarters (
  organization_id uuid not null,
  meter_id uuid not null,
  version integer not null,
  subject_id uuid not null,
  starts_at timestamptz(3) not null,
  created_at timestamptz(3) not null,
  -- The number of events that the meter counts.
  count bigint not null check (count > 0),
  total numeric not null,
  low numeric,
  high numeric,
  is_merged boolean not null default false
);
create index usage_quarters_subject on usage_quarters (organization_id, subject_id, meter_id, starts_at);
create index usage_quarters_meter on usage_quarters (organization_id, meter_id, starts_at);
create index usage_quarters_unmerged on usage_quarters (organization_id, meter_id, subject_id, starts_at) where not is_merged;
grant select, insert on usage_quarters to bursar_api;
grant select, insert, delete on usage_quarters to bursar_worker;

-- The values that meters with `unique` have counted in a quarter hour, as hashes. Numbers of unique values cannot be added, so
-- the values are kept. Ingest appends rows, and so the same value may occur several times. The periodic task deletes the repetitions.
create table usage_uniques (
  organization_id uuid not null,
  meter_id uuid not null,
  version integer not null,
  subject_id uuid not null,
  starts_at timestamptz(3) not null,
  hash uuid not null
);
create index usage_uniques_subject on usage_uniques (organization_id, subject_id, meter_id, starts_at) include (version, hash);
create index usage_uniques_meter on usage_uniques (organization_id, meter_id, version, starts_at) include (subject_id, hash);
grant select, insert on usage_uniques to bursar_api;
grant select, insert, delete on usage_uniques to bursar_worker;

-- The first 128 bits of SHA-256 of a value. Equal numbers have the same hash, however they are written. Text differs from numbers
-- and booleans by its quotation marks.
create function usage_hash(value jsonb) returns uuid language sql stable strict parallel safe as $$
  select encode(substring(sha256(convert_to(
    case jsonb_typeof(value) when 'number' then trim_scale(value::numeric)::text else value::text end, 'UTF8')) from 1 for 16), 'hex')::uuid
$$;

-- One row for each customer and meter, from the first usage or the first credit on. The units are those of the last merge,
-- for sorting.
create table customer_meters (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  customer_id uuid not null,
  meter_id uuid not null,
  consumed_units numeric not null default 0,
  credited_units bigint not null default 0,
  -- The units are computed again when they are due.
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  -- The meter has no foreign key, because meters are never deleted. The check would wait for a change of the meter, which
  -- itself waits for the ingest.
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create unique index customer_meters_customer on customer_meters (organization_id, customer_id, meter_id);
create index customer_meters_due on customer_meters (due_at) where due_at is not null;
create index customer_meters_meter on customer_meters (organization_id, meter_id, id);
create index customer_meters_created on customer_meters (organization_id, created_at, id);
create index customer_meters_modified on customer_meters (organization_id, (coalesce(modified_at, created_at)), id);
create index customer_meters_consumed on customer_meters (organization_id, consumed_units, id);
create index customer_meters_credited on customer_meters (organization_id, credited_units, id);
create index customer_meters_balance on customer_meters (organization_id, (credited_units - consumed_units), id);
grant select, insert, update (due_at) on customer_meters to bursar_api;
grant select, insert, update on customer_meters to bursar_worker;

-- Locks the meters of an organization. Ingest takes the lock in share mode. A transaction that makes or changes a meter takes
-- it in exclusive mode: each ingest has then either committed before, or sees the meter.
create function hold_meters(organization uuid, is_exclusive boolean) returns void language plpgsql as $$
begin
  if is_exclusive then
    perform pg_advisory_xact_lock(hashtextextended('usage meters ' || organization, 0));
  else
    perform pg_advisory_xact_lock_shared(hashtextextended('usage meters ' || organization, 0));
  end if;
end
$$;

-- Returns the meters that ingest counts, under the lock. The second statement of the function has a new snapshot, so it sees
-- every meter that was committed before the lock was granted.
create function meters_to_count(organization uuid) returns table (id uuid, version integer, filter jsonb, aggregation jsonb) language plpgsql as $$
begin
  perform hold_meters(organization, false);
  return query
    select m.id, u.version, m.filter, m.aggregation from meters m
    join usage_meters u on u.organization_id = m.organization_id and u.id = m.id
    where m.organization_id = organization and not u.is_stopped order by m.id;
end
$$;

-- Returns the number of meters on which ingest counts events. Takes the lock in exclusive mode, so that the number is still
-- right when the transaction makes a meter.
create function counting_meters(organization uuid) returns integer language plpgsql as $$
begin
  perform hold_meters(organization, true);
  return (select count(*) from usage_meters u where u.organization_id = organization and not u.is_stopped);
end
$$;

create function last_usage_event(organization uuid) returns uuid language sql stable as $$
  select id from usage_events where organization_id = organization order by id desc limit 1
$$;

-- Begins a version: if a meter is made, if its filter or its aggregation changes, and if it counts again after it was archived.
-- An archived meter stops unless a subscription has a price on it. Its quantities are then computed from the events.
create function begin_counting() returns trigger language plpgsql as $$
declare
  stops boolean;
begin
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation and (new.archived_at is null) = (old.archived_at is null) then
    return null;
  end if;
  perform hold_meters(new.organization_id, true);
  stops := new.archived_at is not null and not exists (
    select from product_prices r
    join subscription_prices b on b.organization_id = r.organization_id and b.price_id = r.id
    join subscriptions s on s.organization_id = b.organization_id and s.id = b.subscription_id and s.ended_at is null
    where r.organization_id = new.organization_id and r.meter_id = new.id);
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation
    and exists (select from usage_meters u where u.organization_id = new.organization_id and u.id = new.id and u.is_stopped = stops) then
    return null;
  end if;
  insert into usage_meters (organization_id, id, version, before_batch, until_event, is_stopped, due_at)
  values (new.organization_id, new.id, 1, nextval(pg_get_serial_sequence('usage_batches', 'number')), last_usage_event(new.organization_id), stops,
    coalesce(new.modified_at, new.created_at))
  on conflict (organization_id, id) do update set
    version = usage_meters.version + 1, before_batch = excluded.before_batch, after_event = null, until_event = excluded.until_event, counted_at = null,
    is_stopped = excluded.is_stopped, due_at = excluded.due_at;
  return null;
end
$$;
create trigger meters_begin_counting after insert or update of filter, aggregation, archived_at on meters for each row execute function begin_counting();
-- Meters that exist already count the events that exist already by the backfill.
insert into usage_meters (organization_id, id, version, before_batch, until_event, due_at)
select organization_id, id, 1, nextval(pg_get_serial_sequence('usage_batches', 'number')), last_usage_event(organization_id), now() from meters;

-- The customer meters of new totals, credits and linked subjects. Known customer meters become due, because their units
-- change. The rows are inserted in one sequence, so that two transactions cannot deadlock.
create function open_customer_meters(organizations uuid[], customers uuid[], meters uuid[], moments timestamptz[]) returns void language sql as $$
  insert into customer_meters (organization_id, id, created_at, customer_id, meter_id, due_at)
  select distinct on (organization_id, customer_id, meter_id) organization_id, gen_random_uuid(), moment, customer_id, meter_id, moment
  from unnest(organizations, customers, meters, moments) wanted (organization_id, customer_id, meter_id, moment)
  where customer_id is not null and not exists (
    select from customer_meters known
    where known.organization_id = wanted.organization_id and known.customer_id = wanted.customer_id and known.meter_id = wanted.meter_id)
  order by 1, 4, 5
  on conflict do nothing
$$;

-- The usage of a seat holder that stays with the buyer of the seat in phase 2, from `since` on and before `until`. A row is added
-- when the member is removed, or when the holder becomes a customer of its own. The spans of a holder follow each other
-- without gaps, and begin and end with a quarter hour. Later usage counts by the present seats.
create table usage_holdings (
  organization_id uuid not null,
  holder_id uuid not null,
  buyer_id uuid not null,
  since timestamptz(3) not null,
  until timestamptz(3) not null check (until > since),
  primary key (organization_id, holder_id, until),
  foreign key (organization_id, holder_id) references customers (organization_id, id),
  foreign key (organization_id, buyer_id) references customers (organization_id, id)
);
create index usage_holdings_buyer on usage_holdings (organization_id, buyer_id);
grant select, insert on usage_holdings to bursar_api, bursar_worker;

-- Keeps the usage of a holder with its buyer, up to the end of the present quarter hour. The buyer is chosen like in moved.sql.ts.
-- The member that has just been removed still counts.
create function keep_usage(organization uuid, holder uuid, removed_member uuid, moment timestamptz) returns void language sql as $$
  insert into usage_holdings (organization_id, holder_id, buyer_id, since, until)
  select organization, holder, chosen.buyer_customer_id, span.since, span.until
  from (
    select held.member_id, held.buyer_customer_id from (
      (select 1 as rank, h.member_id, h.buyer_customer_id from seats h
        join members m on m.organization_id = h.organization_id and m.id = h.member_id and (m.deleted_at is null or m.id = removed_member)
        where h.organization_id = organization and h.holder_customer_id = holder and h.buyer_customer_id <> holder order by h.id limit 1)
      union all
      (select 2, h.member_id, h.buyer_customer_id from benefit_grants h
        join members m on m.organization_id = h.organization_id and m.id = h.member_id and (m.deleted_at is null or m.id = removed_member)
        where h.organization_id = organization and h.holder_customer_id = holder and h.buyer_customer_id <> holder order by h.id limit 1)
    ) held order by held.rank limit 1
  ) chosen cross join (
    select coalesce(max(k.until), '-infinity') as since, date_bin('15 minutes', moment, '2000-01-01T00:00:00Z') + interval '15 minutes' as until
    from usage_holdings k where k.organization_id = organization and k.holder_id = holder
  ) span
  where span.since < span.until and (removed_member is null or chosen.member_id = removed_member)
    and exists (select from organizations o where o.id = organization and o.member_phase = 'phase2')
  on conflict do nothing
$$;

create function keep_usage_of_member() returns trigger language plpgsql as $$
begin
  perform keep_usage(new.organization_id, c.id, new.id, new.deleted_at) from customers c
  where c.organization_id = new.organization_id and c.pure_holder and c.id in (
    select h.holder_customer_id from seats h where h.organization_id = new.organization_id and h.member_id = new.id
    union select h.holder_customer_id from benefit_grants h where h.organization_id = new.organization_id and h.member_id = new.id);
  return null;
end
$$;
create trigger members_keep_usage after update of deleted_at on members
  for each row when (old.deleted_at is null and new.deleted_at is not null) execute function keep_usage_of_member();

create function keep_usage_of_holder() returns trigger language plpgsql as $$
begin
  perform keep_usage(new.organization_id, new.id, null,
    coalesce((select k.now_at from test_clocks k where k.organization_id = new.organization_id and k.id = new.clock_id), clock_timestamp()));
  return null;
end
$$;
create trigger customers_keep_usage after update of pure_holder on customers
  for each row when (old.pure_holder and not new.pure_holder) execute function keep_usage_of_holder();

-- The customers that usage or credits of a customer are shown with, in any phase of the member migration: the customer, the
-- buyers of its seats if it only holds seats, and the buyers that keep its earlier usage.
create function shown_customers(organization uuid, customer uuid) returns setof uuid language sql stable as $$
  select customer where customer is not null
  union
  select h.buyer_customer_id from customers c join seats h on h.organization_id = c.organization_id and h.holder_customer_id = c.id
  where c.organization_id = organization and c.id = customer and c.pure_holder
  union
  select k.buyer_id from usage_holdings k where k.organization_id = organization and k.holder_id = customer
$$;

create function open_counted_meters() returns trigger language plpgsql as $$
begin
  perform open_customer_meters(array_agg(organization_id), array_agg(customer_id), array_agg(meter_id), array_agg(moment)) from (
    select a.organization_id, shown_customers(s.organization_id, s.customer_id) as customer_id, a.meter_id, a.moment
    from (select organization_id, subject_id, meter_id, min(created_at) as moment from added where not is_merged group by 1, 2, 3) a
    join usage_subjects s on s.organization_id = a.organization_id and s.id = a.subject_id
  ) counted having count(*) > 0;
  return null;
end
$$;
create trigger usage_quarters_open after insert on usage_quarters referencing new table as added for each statement execute function open_counted_meters();

-- The customers of the grant, which never change. With these columns, the credits of a customer on one meter have an index.
alter table meter_credits add column buyer_customer_id uuid, add column holder_customer_id uuid;
update meter_credits c set buyer_customer_id = g.buyer_customer_id, holder_customer_id = g.holder_customer_id
from benefit_grants g where g.organization_id = c.organization_id and g.id = c.grant_id;
alter table meter_credits alter column buyer_customer_id set not null;
create index meter_credits_buyer on meter_credits (organization_id, meter_id, buyer_customer_id);
create index meter_credits_holder on meter_credits (organization_id, meter_id, holder_customer_id) where holder_customer_id is not null;

create function copy_customers_of_grant() returns trigger language plpgsql as $$
begin
  select g.buyer_customer_id, g.holder_customer_id into new.buyer_customer_id, new.holder_customer_id
  from benefit_grants g where g.organization_id = new.organization_id and g.id = new.grant_id;
  return new;
end
$$;
create trigger meter_credits_customers before insert on meter_credits for each row execute function copy_customers_of_grant();

create function open_credited_meter() returns trigger language plpgsql as $$
begin
  perform open_customer_meters(array[new.organization_id, new.organization_id], array[new.customer_id, new.buyer_customer_id],
    array[new.meter_id, new.meter_id], array[new.created_at, new.created_at]::timestamptz[]);
  update customer_meters set due_at = coalesce(due_at, new.created_at)
  where organization_id = new.organization_id and customer_id = new.customer_id and meter_id = new.meter_id;
  return null;
end
$$;
create trigger meter_credits_open after insert on meter_credits for each row execute function open_credited_meter();

-- A customer that holds seats of others has the grants of these seats, and few of them are of one benefit.
drop index benefit_grants_holder;
create index benefit_grants_holder on benefit_grants (organization_id, holder_customer_id, benefit_id);

create function open_linked_meters() returns trigger language plpgsql as $$
begin
  perform open_customer_meters(array_agg(new.organization_id), array_agg(new.customer_id), array_agg(meter_id), array_agg(moment)) from (
    select q.meter_id, min(q.created_at) as moment from usage_quarters q where q.organization_id = new.organization_id and q.subject_id = new.id group by 1
  ) counted having count(*) > 0;
  return null;
end
$$;
create trigger usage_subjects_open after update of customer_id on usage_subjects
  for each row when (old.customer_id is null and new.customer_id is not null) execute function open_linked_meters();

insert into customer_meters (organization_id, id, created_at, customer_id, meter_id, due_at)
select c.organization_id, gen_random_uuid(), min(c.created_at), who.customer_id, c.meter_id, min(c.created_at)
from meter_credits c
cross join lateral (values (c.customer_id), (c.buyer_customer_id)) who (customer_id)
group by c.organization_id, who.customer_id, c.meter_id;

-- Quantities read the events of a subject in a time range, of any name. Lists of a customer are sorted by this index too.
drop index usage_events_subject;
create index usage_events_subject on usage_events (organization_id, subject_id, timestamp, id);

-- Balances read the live subscriptions of a customer, which may have many ended ones.
create index subscriptions_live on subscriptions (organization_id, customer_id) where status in ('trialing', 'active', 'past_due');
