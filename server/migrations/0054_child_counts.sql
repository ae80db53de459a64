-- How many children each usage event has that still count. Each call of ingest appends one row for each parent, and corrections append negative
-- numbers. A periodic task merges the rows in the sequence of their positions. A parent has at most one merged row, and its number of
-- children is the sum of all its rows.
create table usage_child_counts (
  organization_id uuid not null,
  parent_id uuid not null,
  children bigint not null,
  position bigint generated always as identity,
  is_merged boolean not null default false
);
create index usage_child_counts_parent on usage_child_counts (organization_id, parent_id) include (children);
create index usage_child_counts_merged on usage_child_counts (organization_id, parent_id) where is_merged;
create index usage_child_counts_unmerged on usage_child_counts (position) where not is_merged;
grant select, insert on usage_child_counts to bursar_api;
grant select, insert, delete on usage_child_counts to bursar_worker;

insert into usage_child_counts (organization_id, parent_id, children, is_merged)
select organization_id, parent_id, count(*), true from usage_events where parent_id is not null and corrected_at is null group by 1, 2;
