-- What is delivered: files, who may download them, and license keys.

-- A file of a seller. Its object is somewhere else: what is known of it here is what was seen when it was read back.
create table files (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  service text not null check (service in ('downloadable', 'product_media', 'organization_avatar')),
  name text not null,
  -- Where its object is: ours to choose, whatever a client says.
  path text not null,
  mime_type text not null,
  size bigint not null check (size > 0),
  version text,
  -- Where anybody can see it; null where only a link opens it.
  public_url text,
  -- As it was declared, and found to be so; where nothing was declared, as it was found.
  checksum_sha256_base64 text,
  checksum_sha256_hex text,
  checksum_etag text,
  storage_version text,
  last_modified_at timestamptz(3),
  -- Under which name the storage knows the upload; null until it was opened.
  upload_id text,
  -- uploading: nothing is there yet; verifying: it is there, and is read back; ready; refused: it is not what it was said to be.
  state text not null check (state in ('uploading', 'verifying', 'ready', 'refused')),
  -- Why it was refused.
  problem text,
  -- Verified, given up, or its object removed: whatever is next.
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  check ((state = 'refused') = (problem is not null)),
  check ((service = 'downloadable') = (public_url is null))
);
create unique index files_path on files (organization_id, path);
create index files_created on files (organization_id, created_at, id) where deleted_at is null and state = 'ready';
create index files_due on files (due_at) where due_at is not null;
grant select, insert, update on files to bursar_api, bursar_worker;

-- In which parts a file was announced, until it has been read back.
create table file_parts (
  organization_id uuid not null,
  file_id uuid not null,
  number integer not null check (number between 1 and 10000),
  size bigint not null check (size > 0),
  -- What it was said to be; null where nothing was said.
  checksum_sha256_base64 text,
  primary key (organization_id, file_id, number),
  foreign key (organization_id, file_id) references files (organization_id, id)
);
grant select, insert, update, delete on file_parts to bursar_api;
grant select, delete on file_parts to bursar_worker;

-- The pictures of a product, in its order.
create table product_medias (
  organization_id uuid not null,
  product_id uuid not null,
  file_id uuid not null,
  position integer not null,
  primary key (organization_id, product_id, file_id),
  foreign key (organization_id, product_id) references products (organization_id, id) on delete cascade,
  foreign key (organization_id, file_id) references files (organization_id, id)
);
create index product_medias_file on product_medias (organization_id, file_id);
grant select, insert, delete on product_medias to bursar_api;
grant select on product_medias to bursar_worker;

-- The files of a benefit, in its order. Archived ones stay with those who have them, and go to nobody new.
create table benefit_files (
  organization_id uuid not null,
  benefit_id uuid not null,
  file_id uuid not null,
  position integer not null,
  is_archived boolean not null,
  primary key (organization_id, benefit_id, file_id),
  foreign key (organization_id, benefit_id) references benefits (organization_id, id),
  foreign key (organization_id, file_id) references files (organization_id, id)
);
create index benefit_files_file on benefit_files (organization_id, file_id);
grant select, insert, delete on benefit_files to bursar_api;
grant select on benefit_files to bursar_worker;

-- A file that a grant lets somebody download. Whether it still does is the grant's to say.
create table downloadables (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  grant_id uuid not null,
  benefit_id uuid not null,
  file_id uuid not null,
  downloads integer not null default 0,
  last_downloaded_at timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, grant_id) references benefit_grants (organization_id, id),
  foreign key (organization_id, benefit_id) references benefits (organization_id, id),
  foreign key (organization_id, file_id) references files (organization_id, id)
);
create unique index downloadables_one on downloadables (organization_id, grant_id, file_id);
create index downloadables_benefit on downloadables (organization_id, benefit_id, file_id);
create index downloadables_file on downloadables (organization_id, file_id);
grant select, insert, update on downloadables to bursar_api, bursar_worker;

-- A key of one grant. It is looked up by its hash and shown by opening its seal.
create table license_keys (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  benefit_id uuid not null,
  grant_id uuid not null,
  buyer_customer_id uuid not null,
  holder_customer_id uuid,
  member_id uuid,
  hash text not null,
  pepper smallint not null,
  key_sealed text not null,
  display_key text not null,
  status text not null check (status in ('granted', 'revoked', 'disabled')),
  limit_activations integer check (limit_activations > 0),
  usage integer not null default 0 check (usage >= 0),
  limit_usage integer check (limit_usage > 0),
  validations integer not null default 0,
  last_validated_at timestamptz(3),
  expires_at timestamptz(3),
  -- What the seller has set for this key alone: edits of the benefit leave it as it is.
  overrides text[] not null default '{}',
  primary key (organization_id, id),
  foreign key (organization_id, benefit_id) references benefits (organization_id, id),
  foreign key (organization_id, grant_id) references benefit_grants (organization_id, id),
  foreign key (organization_id, buyer_customer_id) references customers (organization_id, id),
  foreign key (organization_id, holder_customer_id) references customers (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id)
);
create unique index license_keys_hash on license_keys (organization_id, hash);
create unique index license_keys_grant on license_keys (organization_id, grant_id);
create index license_keys_created on license_keys (organization_id, created_at, id);
create index license_keys_benefit on license_keys (organization_id, benefit_id, created_at, id);
create index license_keys_buyer on license_keys (organization_id, buyer_customer_id);
create index license_keys_holder on license_keys (organization_id, holder_customer_id);
create index license_keys_member on license_keys (organization_id, member_id);
create trigger license_keys_come after insert on license_keys referencing new table as changed for each statement execute function count_rows('license_keys');
grant select, insert, update on license_keys to bursar_api, bursar_worker;

create table license_key_activations (
  organization_id uuid not null,
  id uuid not null,
  license_key_id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  -- Null: whose it was is forgotten.
  label text,
  meta jsonb not null,
  conditions jsonb not null,
  primary key (organization_id, id),
  foreign key (organization_id, license_key_id) references license_keys (organization_id, id)
);
create index license_key_activations_key on license_key_activations (organization_id, license_key_id, created_at, id);
grant select, insert, delete, update (label, meta, conditions) on license_key_activations to bursar_api;
grant select on license_key_activations to bursar_worker;

-- What licences for offline use are signed with. The newest signs; all are published, for a licence outlives its key.
create table licence_signing_keys (
  kid text primary key,
  created_at timestamptz not null,
  public_jwk jsonb not null,
  sealed text not null
);
grant select, insert on licence_signing_keys to bursar_api;
grant select on licence_signing_keys to bursar_worker;

call note_changes_of('files', 'product_medias', 'benefit_files', 'license_key_activations');
-- That a key was asked about is counted, and is nobody's deed: strangers cannot fill the log.
create trigger note_changes after insert or delete on license_keys for each row execute function note_change();
create trigger note_updates after update on license_keys for each row
  when (old.modified_at is distinct from new.modified_at or old.status is distinct from new.status) execute function note_change();
