-- An archived meter stops to count as soon as nothing needs its usage any more, and not only when it is archived. Otherwise it takes one of
-- the 100 places of its organization for ever.

create index meters_once_archived on meters (organization_id, id) where archived_at is not null;

-- True if an archived meter needs no new usage: no live subscription has a price on it, and no late usage of a period may still be billed.
-- Such usage may exist if the period is open, if it waits for the last order, or if it ended in the last 35 days.
create function may_stop_counting(organization uuid, meter uuid, moment timestamptz) returns boolean language sql stable as $$
  select not exists (
    select from product_prices r
    join subscription_prices b on b.organization_id = r.organization_id and b.price_id = r.id
    join subscriptions s on s.organization_id = b.organization_id and s.id = b.subscription_id and s.ended_at is null
    where r.organization_id = organization and r.meter_id = meter)
  and not exists (
    select from usage_periods p
    left join test_clocks k on k.organization_id = p.organization_id and k.id = p.clock_id
    where p.organization_id = organization and p.meter_id = meter and p.final_at is null
      and (p.ends_at is null or p.due_at is not null or p.ends_at > coalesce(k.now_at, moment) - interval '35 days'))
$$;

-- Begins a version of a meter. The caller holds the meters of the organization in exclusive mode.
create function begin_version(organization uuid, meter uuid, stops boolean, moment timestamptz) returns void language sql as $$
  insert into usage_meters (organization_id, id, version, before_batch, until_event, is_stopped, due_at)
  values (organization, meter, 1, nextval(pg_get_serial_sequence('usage_batches', 'number')), last_usage_event(organization), stops, moment)
  on conflict (organization_id, id) do update set
    version = usage_meters.version + 1, before_batch = excluded.before_batch, after_event = null, until_event = excluded.until_event, counted_at = null,
    is_stopped = excluded.is_stopped, due_at = excluded.due_at
$$;

create or replace function begin_counting() returns trigger language plpgsql as $$
declare
  stops boolean;
  moment timestamptz := coalesce(new.modified_at, new.created_at);
begin
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation and (new.archived_at is null) = (old.archived_at is null) then
    return null;
  end if;
  perform hold_meters(new.organization_id, true);
  stops := new.archived_at is not null and may_stop_counting(new.organization_id, new.id, moment);
  if tg_op = 'UPDATE' and new.filter = old.filter and new.aggregation = old.aggregation
    and exists (select from usage_meters u where u.organization_id = new.organization_id and u.id = new.id and u.is_stopped = stops) then
    return null;
  end if;
  perform begin_version(new.organization_id, new.id, stops, moment);
  return null;
end
$$;

-- Stops an archived meter, if nothing needs its usage any more. The locks have the sequence of a change of the meter. The look comes after
-- them, so no transaction restores the meter meanwhile, and no ingest counts on it. Returns true if the meter has stopped.
create function stop_archived_meter(organization uuid, meter uuid, moment timestamptz) returns boolean language plpgsql as $$
begin
  perform from meters m where m.organization_id = organization and m.id = meter and m.archived_at is not null for update;
  if not found then
    return false;
  end if;
  perform hold_meters(organization, true);
  if not may_stop_counting(organization, meter, moment)
    or not exists (select from usage_meters u where u.organization_id = organization and u.id = meter and not u.is_stopped) then
    return false;
  end if;
  perform begin_version(organization, meter, true, moment);
  return true;
end
$$;
