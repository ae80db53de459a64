-- Least-privilege roles, made idempotently before the numbered migrations on every run. Roles belong to the whole
-- cluster, so two databases may be migrated at the same moment: losing that race is fine.
--   bursar_api        serves requests: reads and writes rows, owns nothing
--   bursar_worker     runs jobs and sweeps: the same, plus numbering events
--   bursar_jobs       owns the job queue and nothing else
--   bursar_processor  keeps the test processor's books, and sees nothing of ours
do $$
declare
  name text;
begin
  foreach name in array array['bursar_api', 'bursar_worker', 'bursar_jobs', 'bursar_processor'] loop
    if not exists (select from pg_roles where rolname = name) then
      begin
        execute format('create role %I nologin', name);
      exception when duplicate_object or unique_violation then
      end;
    end if;
    -- Membership alone is not enough from PostgreSQL 16 on: the grant says that the role may also be taken.
    if not (select rolsuper from pg_roles where rolname = current_user) then
      execute format('grant %I to current_user', name);
    end if;
  end loop;
end
$$;
