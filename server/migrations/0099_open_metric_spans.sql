-- 0085 wrote the history of existing rows with greatest(ended_at, started_at). greatest() ignores nulls, so every span of a
-- living subscription, seat or order ended where it began, and metrics did not count it. Opens these spans again. Facts never
-- change, so a fact at the same moment takes back the one of the end.
with opened as (
  update metric_spans s set ends_at = null
  where s.ends_at = s.starts_at
    and not exists (select from metric_spans o where o.organization_id = s.organization_id and o.resource_id = s.resource_id and o.position <> s.position
      and (o.ends_at is null or o.starts_at >= s.starts_at))
    and case s.resource
      when 'subscription' then exists (select from subscriptions b where b.organization_id = s.organization_id and b.id = s.resource_id
        and b.started_at is not null and b.ended_at is null and b.status not in ('incomplete', 'incomplete_expired'))
      when 'seat' then exists (select from seats b where b.organization_id = s.organization_id and b.id = s.resource_id and b.status <> 'revoked')
      else exists (select from orders b where b.organization_id = s.organization_id and b.id = s.resource_id and b.benefits_revoked_at is null)
    end
  returning s.*
)
select note_metric_span(row(o.*)::metric_spans, o.starts_at, 1) from opened o;
