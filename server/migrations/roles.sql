-- Least-privilege roles, made idempotently before the numbered migrations on every run, unless an administrator made them. Roles belong to the whole
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
      exception
        when duplicate_object or unique_violation then null;
        when insufficient_privilege then
          raise exception using errcode = 'insufficient_privilege', message = format(
            'the role %1$s is missing, and %2$s may not create roles: as an administrator, run create role %1$s nologin; grant %1$s to %2$s;', name, current_user);
      end;
    end if;
    -- From PostgreSQL 16 on, the creator of a role needs this grant to set the role. An owner without createrole cannot grant:
    -- it was made a member beforehand.
    if not (select rolsuper from pg_roles where rolname = current_user) then
      begin
        execute format('grant %I to current_user', name);
      exception when insufficient_privilege then
        if not pg_has_role(current_user, name, 'member') then raise; end if;
      end;
    end if;
  end loop;
end
$$;
