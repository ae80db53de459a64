-- Functions in SQL are planned at each call, and a function with a setting of its own resets it at each call. In PL/pgSQL the
-- plans are kept. Only triggers with the rights of the owner call these functions, and those set the search path. A paid
-- order then spends half the time in its trigger, and a change of a price a third.

-- Notes the facts of a span: `sign` is 1 at its start and -1 at its end.
create or replace function note_metric_span(span metric_spans, moment timestamptz, sign integer) returns void language plpgsql as $$
begin
  if span.resource = 'subscription' then
    insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
    values (span.organization_id, 'subscriptions.' || span.state || case when span.is_open then '.open' else '.ending' end, moment, sign, span.amount * sign, span.currency,
      span.customer_id, span.product_id, span.resource, span.resource_id);
  elsif span.resource = 'seat' then
    insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
    values (span.organization_id, 'seats.' || span.state, moment, sign, 0, null, span.customer_id, span.product_id, span.resource, span.resource_id);
  end if;
  if span.seats > 0 and span.resource <> 'seat' then
    insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
    values (span.organization_id, 'seats.total', moment, span.seats * sign, 0, null, span.customer_id, span.product_id, span.resource, span.resource_id);
  end if;
end
$$;
alter function note_metric_span(metric_spans, timestamptz, integer) reset search_path;
create or replace function note_metric_flow(organization uuid, measure text, moment timestamptz, n bigint, amount bigint, currency text, customer uuid, product uuid, resource text, id uuid)
  returns void language plpgsql as $$
begin
  insert into metric_facts (organization_id, measure, at, count, amount, currency, customer_id, product_id, resource, resource_id)
  values (organization, note_metric_flow.measure, moment, n, note_metric_flow.amount, note_metric_flow.currency, customer, product, note_metric_flow.resource, id);
end
$$;
alter function note_metric_flow(uuid, text, timestamptz, bigint, bigint, text, uuid, uuid, text, uuid) reset search_path;
alter function follow_metric_span(metric_spans, boolean, timestamptz) reset search_path;
alter function metric_monthly(subscriptions) reset search_path;
alter function follow_subscription_state(subscriptions, timestamptz) reset search_path;
alter function follow_seat_state(seats, timestamptz) reset search_path;
