-- Locks an idempotency key until the transaction ends, and returns its stored request. The second statement of the function has
-- a new snapshot. So it sees a request that committed just before the lock was granted. In one statement, such a request
-- could be missed, and the same change was tried a second time.
create function take_idempotency_key(name_of_lock text, owner_of_key text, asked_key text, moment timestamptz)
  returns table (taken boolean, operation text, fingerprint text, status smallint, headers jsonb, body text, sealed boolean, intent jsonb, busy_until timestamptz)
  language plpgsql as $$
declare
  is_taken boolean := pg_try_advisory_xact_lock(hashtextextended(name_of_lock, 0));
begin
  return query
    select is_taken, k.operation, k.fingerprint, k.status, k.headers, k.body, k.sealed, k.intent, k.busy_until
    from (select 1) one left join idempotency_keys k on k.owner = owner_of_key and k.key = asked_key and k.expires_at > moment;
end
$$;
