-- A period that was settled with one filter and aggregation is never computed with another. The filter of a meter may change until its
-- first quantity is settled, so periods with a settled quantity of 0 can be older than the filter.

-- Names a filter with an aggregation. Equal ones have the same name.
create function meter_definition(filter jsonb, aggregation jsonb) returns text language sql stable strict parallel safe as $$
  select left(encode(sha256(convert_to(filter::text || ' ' || aggregation::text, 'UTF8')), 'hex'), 32)
$$;

-- The definition of the meter when the ended period was last settled. Null: it was not settled since it ended.
alter table usage_periods add column settled_as text;

-- Whether a quantity of 0 was settled before the last change of a meter is not known. Such periods stay as they are.
update usage_periods p set settled_as = case when u.version > 1 and p.billed_quantity = 0 then 'unknown' else meter_definition(m.filter, m.aggregation) end
from meters m join usage_meters u on u.organization_id = m.organization_id and u.id = m.id
where m.organization_id = p.organization_id and m.id = p.meter_id and p.ends_at is not null and not p.is_unsettled;
