-- A copy of the usage events in another store, which answers questions over many events. PostgreSQL stays the truth: the copy can be
-- dropped and made again at any time.

-- The copy, if the deployment has one. Its id names the tables in the store.
create table usage_copies (
  id uuid primary key,
  created_at timestamptz(3) not null,
  -- The address of the store. The copy in another store is another copy.
  store text not null,
  -- A transaction that began after this row was committed. All batches of later transactions list themselves.
  listing_after xid8,
  -- What was listed of the time before the copy: first all batches, then all corrections.
  listed text not null default 'nothing' check (listed in ('nothing', 'batches', 'everything')),
  -- The last batch or correction that was listed. Null before the first.
  listed_organization_id uuid,
  listed_id uuid,
  -- The number of the last chunk that was begun.
  chunk bigint not null default 0,
  lease_token uuid,
  lease_until timestamptz(3)
);
create unique index usage_copies_one on usage_copies ((true));
grant select on usage_copies to bursar_api;
grant select, insert, update, delete on usage_copies to bursar_worker;

-- Batches and corrections that are not copied yet. A batch that commits late is listed with its commit, so none is missed.
create table usage_uncopied (
  organization_id uuid not null references organizations (id),
  kind text not null check (kind in ('batch', 'correction')),
  -- The batch, or the event that was corrected.
  id uuid not null,
  events integer not null check (events > 0),
  -- The chunk that copies it. Null until then.
  chunk bigint,
  primary key (organization_id, kind, id)
);
create index usage_uncopied_chunk on usage_uncopied (chunk) where chunk is not null;
create index usage_uncopied_waiting on usage_uncopied (id) where chunk is null;
grant select, insert on usage_uncopied to bursar_api;
grant select, insert, update, delete on usage_uncopied to bursar_worker;

create function list_usage_to_copy() returns trigger language plpgsql as $$
begin
  -- A volatile function sees everything that was committed before this statement of it.
  if not exists (select from usage_copies) then
    return null;
  end if;
  if tg_table_name = 'usage_batches' then
    insert into usage_uncopied (organization_id, kind, id, events) select organization_id, 'batch', id, events from added on conflict do nothing;
  else
    insert into usage_uncopied (organization_id, kind, id, events) select organization_id, 'correction', event_id, 1 from added on conflict do nothing;
  end if;
  return null;
end
$$;
create trigger usage_batches_copied after insert on usage_batches referencing new table as added for each statement execute function list_usage_to_copy();
create trigger usage_corrections_copied after insert on usage_corrections referencing new table as added for each statement execute function list_usage_to_copy();
