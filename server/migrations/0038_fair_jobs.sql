-- Jobs get a class (priority and flags) and a key per container. Calls with two arguments, of older processes, still work.
drop function enqueue_job(text, jsonb);

-- The only way into the job queue for the roles that serve requests: insert, never read, change or run. Returns true if a
-- waiting job with the same key was changed instead. `preserve_run_at` keeps the place of that job in the queue. If the job
-- with the key already runs, add_job takes its key away and inserts another job, so the later change is not lost.
-- A worker may lock the waiting job while add_job runs. add_job then inserts nothing and returns null. The next call
-- sees the locked job.
create function enqueue_job(name text, payload jsonb, priority integer default 0, flags text[] default null, key text default null) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  as $$
declare
  added record;
begin
  loop
    select j.id, j.revision into added from graphile_worker.add_job(
      identifier => name, payload => payload::json, priority => priority, flags => flags, job_key => key, job_key_mode => 'preserve_run_at') j;
    exit when added.id is not null;
  end loop;
  return added.revision > 0;
end $$;
grant create on schema public to bursar_jobs;
alter function enqueue_job(text, jsonb, integer, text[], text) owner to bursar_jobs;
revoke create on schema public from bursar_jobs;
revoke all on function enqueue_job(text, jsonb, integer, text[], text) from public;
grant execute on function enqueue_job(text, jsonb, integer, text[], text) to bursar_api, bursar_worker;
