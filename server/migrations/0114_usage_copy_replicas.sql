-- The servers of a copy that may miss chunks which have ended. A copy on one server has none. Requests ask only the other servers. The copier
-- changes this list in the transaction that ends a chunk.
alter table usage_copies add column behind text[] not null default '{}';
