-- A seat can be revoked without a lock of its subscription, while a change of the subscription moves its seats to another
-- product. Both then ended the same span: it ended twice, and its successor never. The seats are now read under their locks.
create or replace function note_subscription_metrics() returns trigger language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  is_new boolean := tg_op = 'INSERT';
  changed timestamptz := case when tg_op = 'INSERT' then coalesce(new.started_at, new.created_at) else coalesce(new.modified_at, new.created_at) end;
  reason text := coalesce(new.customer_cancellation_reason, 'other');
begin
  if new.started_at is not null and (is_new or old.started_at is null) then
    perform note_metric_flow(new.organization_id, 'subscriptions.started', new.started_at, 1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if not is_new and old.canceled_at is not null and (new.canceled_at is null or reason <> coalesce(old.customer_cancellation_reason, 'other')) then
    perform note_metric_flow(new.organization_id, 'subscriptions.canceled.' || coalesce(old.customer_cancellation_reason, 'other'), changed, -1, 0, null,
      new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if new.canceled_at is not null and (is_new or old.canceled_at is null or reason <> coalesce(old.customer_cancellation_reason, 'other')) then
    perform note_metric_flow(new.organization_id, 'subscriptions.canceled.' || reason, case when is_new or old.canceled_at is null then new.canceled_at else changed end,
      1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if not is_new and old.ended_at is not null and new.ended_at is null then
    perform note_metric_flow(new.organization_id, 'subscriptions.ended', changed, -1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
  end if;
  if new.ended_at is not null and (is_new or old.ended_at is null) then
    perform note_metric_flow(new.organization_id, 'subscriptions.ended', new.ended_at, 1, 0, null, new.customer_id, new.product_id, 'subscription', new.id);
    if is_new and new.started_at is not null then
      -- An imported subscription that has ended: its state held until then.
      perform follow_subscription_state(jsonb_populate_record(new, '{"ended_at": null}'), new.started_at);
    end if;
    perform follow_subscription_state(new, new.ended_at);
  else
    perform follow_subscription_state(new, changed);
  end if;
  if not is_new and new.product_id <> old.product_id and new.seats is not null then
    perform follow_seat_state(l.seat, changed) from (
      select s as seat from seats s where s.organization_id = new.organization_id and s.subscription_id = new.id and s.status <> 'revoked' order by s.id for no key update) l;
  end if;
  return null;
end
$$;
