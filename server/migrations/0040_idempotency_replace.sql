-- A request replaces the expired answer of its idempotency key in the statement that stores the new one.
grant update (operation, fingerprint, created_at, expires_at, intent) on idempotency_keys to bursar_api;
