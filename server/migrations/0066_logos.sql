-- Copies of the sellers' logos. Pages show the copy, so that a buyer's browser sends no request to the host of the logo.

-- The copy of `avatar_url`: its source, checksum, type and size, or the reason why there is none. Null before the first try.
alter table organizations add column logo jsonb check (logo is null or (logo ? 'source' and (logo ? 'sha256') <> (logo ? 'problem')));
-- The periodic task that copies missing logos reads only these rows.
create index organizations_without_logo on organizations (id) where avatar_url is not null and deleted_at is null and logo ->> 'source' is distinct from avatar_url;

-- Not in the audit log: the change of `organizations.logo` is, with the checksum of the bytes.
create table organization_logos (
  organization_id uuid not null references organizations (id),
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz(3) not null,
  content_type text not null,
  bytes bytea not null check (octet_length(bytes) between 1 and 1048576),
  primary key (organization_id, sha256)
);
grant select on organization_logos to bursar_api;
grant select, insert, update, delete on organization_logos to bursar_worker;
