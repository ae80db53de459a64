-- Units of a customer on a meter that are held for work in progress. A reservation is live until it is settled by a usage event, released or expired.
-- Rows have no foreign keys, because each would be checked for each reservation. No role may delete customers or meters.
create table usage_reservations (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  customer_id uuid not null,
  meter_id uuid not null,
  -- The seller's own key of the work. Another request with the same key makes no second reservation.
  key text not null check (length(key) between 1 and 256),
  units numeric not null check (units > 0),
  expires_at timestamptz(3) not null,
  settled_at timestamptz(3),
  released_at timestamptz(3),
  -- The event that settled the reservation.
  event_id uuid,
  primary key (organization_id, id),
  check ((settled_at is null) = (event_id is null))
);
create unique index usage_reservations_key on usage_reservations (organization_id, key);
create index usage_reservations_open on usage_reservations (organization_id, customer_id, meter_id, expires_at) include (units)
  where settled_at is null and released_at is null;
create index usage_reservations_end on usage_reservations (expires_at);
grant select, insert, update (settled_at, released_at, event_id) on usage_reservations to bursar_api;
grant select, delete on usage_reservations to bursar_worker;

-- Serializes the reservations of a customer on a meter until the transaction ends. The next statement sees all earlier ones.
create function hold_reservations(organization uuid, customer uuid, meter uuid) returns void language sql set search_path = pg_catalog, pg_temp as $$
  select pg_advisory_xact_lock(hashtextextended('usage reservations ' || organization || customer || meter, 0))
$$;
