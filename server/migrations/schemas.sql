-- Where the roles may look, and the schema of the job queue: made idempotently before the numbered migrations on every run.
revoke all on schema public from public;
grant usage on schema public to bursar_api, bursar_worker, bursar_jobs;
create schema if not exists graphile_worker authorization bursar_jobs;
