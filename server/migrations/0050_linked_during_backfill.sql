-- A subject may get a customer while a meter still counts earlier events. Then not all events of the subject have totals yet, and the totals
-- of the backfill mark no period. So all periods from the first to the last event of the subject are marked for such a meter. The rest
-- of the function is as before: the first statement locks the periods of all linked subjects by their ids, and waits for a
-- settlement that is just closing a period. The second sees it closed.
create or replace function unsettle_linked_periods() returns trigger language plpgsql as $$
declare
  overlapping uuid[];
begin
  select array_agg(locked.id) into overlapping from (
    select p.id from usage_periods p
    join (
      select n.organization_id, shown.customer_id, used.meter_id, min(used.first) as first, max(used.last) as last
      from linked n join unlinked o on o.organization_id = n.organization_id and o.id = n.id and o.customer_id is null
      cross join lateral (
        select q.meter_id, q.starts_at as first, q.starts_at + interval '15 minutes' as last
        from usage_quarters q where q.organization_id = n.organization_id and q.subject_id = n.id
        union all
        select u.id, stored.first, stored.last + interval '1 millisecond' from usage_meters u cross join (
          select min(e.timestamp) as first, max(e.timestamp) as last from usage_events e where e.organization_id = n.organization_id and e.subject_id = n.id
        ) stored
        where u.organization_id = n.organization_id and u.counted_at is null and not u.is_stopped and stored.first is not null
      ) used
      cross join lateral shown_customers(n.organization_id, n.customer_id) shown (customer_id) group by 1, 2, 3
    ) spans on spans.organization_id = p.organization_id and spans.customer_id = p.customer_id and spans.meter_id = p.meter_id
      and p.starts_at < spans.last and (p.ends_at is null or p.ends_at > spans.first)
    order by p.organization_id, p.id for no key update of p) locked;
  update usage_periods p set is_unsettled = true, due_at = case when p.final_at is null then p.due_at else
    coalesce((select k.now_at from test_clocks k where k.organization_id = p.organization_id and k.id = p.clock_id), clock_timestamp()) end
  where p.organization_id in (select n.organization_id from linked n) and p.id = any(overlapping) and p.ends_at is not null;
  return null;
end
$$;
