-- Secrets of events. The payload holds a placeholder for each; the values are sealed until the last delivery has ended.
alter table events add column secrets_sealed text;
create index events_sealed on events (organization_id, sequence) where secrets_sealed is not null;
grant update (secrets_sealed) on events to bursar_worker;
alter table webhook_deliveries add column carries_secrets boolean not null default false;

-- Older payloads held the client secret of their checkout in plain text. The key is not in the database, so they are
-- redacted, not sealed. Deliveries that are still waiting arrive with the placeholders.
update events set payload = regexp_replace(payload::text, 'bursar_(test_)?c_[0-9A-Za-z]{43}', 'redacted', 'g')::json
  where kind in ('checkout.created', 'checkout.updated', 'checkout.expired') and payload is not null;
update webhook_attempts set response = regexp_replace(response, 'bursar_(test_)?[a-z]{1,4}_[0-9A-Za-z]{43}', 'redacted', 'g')
  where response ~ 'bursar_(test_)?[a-z]{1,4}_[0-9A-Za-z]{43}';
