-- What products give to those who buy them.

create table benefits (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  type text not null check (type in (
    'custom', 'discord', 'github_repository', 'downloadables', 'license_keys', 'meter_credit', 'feature_flag', 'slack_shared_channel')),
  description text not null,
  visibility text not null check (visibility in ('draft', 'private', 'public')),
  selectable boolean not null default true,
  deletable boolean not null default true,
  properties jsonb not null,
  -- The meter that a credit counts on, told apart so that the database knows of it.
  meter_id uuid,
  metadata jsonb not null,
  primary key (organization_id, id),
  foreign key (organization_id, meter_id) references meters (organization_id, id),
  check ((type = 'meter_credit') = (meter_id is not null))
);
create index benefits_created on benefits (organization_id, created_at, id) where deleted_at is null;
create index benefits_meter on benefits (organization_id, meter_id) where meter_id is not null;
grant select, insert, update on benefits to bursar_api;
grant select on benefits to bursar_worker;

create table product_benefits (
  organization_id uuid not null,
  product_id uuid not null,
  benefit_id uuid not null,
  position integer not null,
  primary key (organization_id, product_id, benefit_id),
  foreign key (organization_id, product_id) references products (organization_id, id) on delete cascade,
  foreign key (organization_id, benefit_id) references benefits (organization_id, id)
);
create index product_benefits_benefit on product_benefits (organization_id, benefit_id);
grant select, insert, delete on product_benefits to bursar_api;
grant select on product_benefits to bursar_worker;
