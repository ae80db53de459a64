-- The merge of usage is bounded by rows. It takes the oldest rows of each meter, whatever their quarter hours are.

drop index usage_quarters_unmerged;
create index usage_quarters_unmerged on usage_quarters (organization_id, meter_id, created_at) where not is_merged;
-- The merged row of a quarter hour is found without reading the others of the same quarter hour.
create index usage_quarters_merged on usage_quarters (organization_id, subject_id, meter_id, starts_at) where is_merged;

-- A merged value occurs once in its quarter hour. Ingest appends rows that are not merged. The task replaces these rows by merged ones, so it
-- looks at each row once, and never sorts the values of a quarter hour again.
alter table usage_uniques add column is_merged boolean not null default false;
create index usage_uniques_unmerged on usage_uniques (organization_id, meter_id) where not is_merged;
create index usage_uniques_value on usage_uniques (organization_id, subject_id, meter_id, version, hash, starts_at) include (is_merged);
