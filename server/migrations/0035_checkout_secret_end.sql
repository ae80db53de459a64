-- The client secret of a checkout ends ten minutes after it has succeeded.
alter table checkouts add column secret_until timestamptz(3);
update checkouts set secret_until = now() where status = 'succeeded';
delete from credentials where kind = 'checkout' and subject_id in (select id from checkouts where status = 'succeeded');
