-- Corrections of usage events. A corrected event is kept and marked, and no longer counts on any meter.

-- When the event was voided or replaced. Every statement that counts events leaves these events out.
alter table usage_events add column corrected_at timestamptz(3);
create index usage_events_corrected on usage_events (organization_id, timestamp, id) where corrected_at is not null;
grant update (corrected_at) on usage_events to bursar_api;

-- One row for each corrected event. The unique index decides between concurrent corrections of the same event.
create table usage_corrections (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  event_id uuid not null,
  -- The subject of the event. The reason is erased with its customer.
  subject_id uuid not null,
  -- The event that counts instead. Null if the event was voided.
  replacement_id uuid,
  -- SHA-256 of the replacement as it was sent, without texts of language models. The same correction can then be recognised.
  fingerprint text,
  -- Null after the data of the customer was erased.
  reason text,
  primary key (organization_id, id),
  foreign key (organization_id, subject_id) references usage_subjects (organization_id, id),
  check ((replacement_id is null) = (fingerprint is null))
);
create unique index usage_corrections_event on usage_corrections (organization_id, event_id);
create index usage_corrections_subject on usage_corrections (organization_id, subject_id);
grant select, insert, update (reason) on usage_corrections to bursar_api;
grant select, update (reason) on usage_corrections to bursar_worker;
call note_changes_of('usage_corrections');

-- Corrections append negative totals. For maxima and minima they replace the totals of a quarter hour, and for unique
-- values they delete hashes. A replaced total may be 0: the next merge then finds the quarter hour, and deletes the row.
alter table usage_quarters drop constraint usage_quarters_count_check;
grant delete on usage_quarters, usage_uniques to bursar_api;

-- The lock between corrections of an organization and the merge of its totals.
create function correction_lock(organization uuid) returns bigint language sql immutable strict parallel safe as $$
  select hashtextextended('usage corrections ' || organization, 0)
$$;

-- Returns the meters that count, and how far their backfill has come. Until the transaction ends:
--   no meter of the organization is made or changed, because its meters are locked in share mode,
--   no other correction and no merge changes its totals, because of the lock of corrections,
--   no backfill counts its events, because each chunk locks the row of its meter.
-- Each statement of the function has a new snapshot, so the last one sees everything that the locks waited for.
create function meters_to_correct(organization uuid)
  returns table (id uuid, version integer, filter jsonb, aggregation jsonb, before_batch bigint, after_event uuid, is_counted boolean) language plpgsql as $$
begin
  perform hold_meters(organization, false);
  perform pg_advisory_xact_lock(correction_lock(organization));
  perform from usage_meters u where u.organization_id = organization and not u.is_stopped and u.counted_at is null order by u.id for share;
  return query
    select m.id, u.version, m.filter, m.aggregation, u.before_batch, u.after_event, u.counted_at is not null from meters m
    join usage_meters u on u.organization_id = m.organization_id and u.id = m.id
    where m.organization_id = organization and not u.is_stopped order by m.id;
end
$$;
