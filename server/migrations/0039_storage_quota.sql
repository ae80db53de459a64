-- The sum of an organization's stored files is read from this index alone, whenever a file is announced.
create index files_stored on files (organization_id) include (size) where (deleted_at is null and state <> 'refused') or due_at is not null;
