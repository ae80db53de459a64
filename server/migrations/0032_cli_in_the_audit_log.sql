-- Changes made with the command line are recorded too. Their actor is the command line itself: it runs with the
-- deployment's own settings, so no person or token stands behind it.
alter table audit_log drop constraint audit_log_actor_kind_check;
alter table audit_log add constraint audit_log_actor_kind_check check (actor_kind in ('organization', 'user', 'customer', 'member', 'anonymous', 'cli'));
-- The switches of the deployment, which only the command line can change.
call note_changes_of('deployment');
