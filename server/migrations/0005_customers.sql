-- Who pays, who uses, and how they get into the portal.

-- How far an organization has come from "every seat holder is a customer" to "members under a buyer".
alter table organizations add column member_phase text not null default 'phase2' check (member_phase in ('before', 'phase1', 'phase2'));
alter table organizations alter column member_phase drop default;
update organizations set feature_settings = feature_settings - 'member_model_enabled';

create table customers (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  type text not null check (type in ('individual', 'team')),
  email text,
  email_verified boolean not null,
  external_id text,
  name text,
  billing_name text,
  billing_address jsonb,
  tax_id text,
  tax_id_format text,
  locale text,
  metadata jsonb not null,
  default_payment_method_id uuid,
  first_user_event_at timestamptz(3),
  -- The lens of the member migration: a customer that only ever held seats is gone from phase 2 on; one that bought them is a team.
  pure_holder boolean not null default false,
  becomes_team boolean not null default false,
  primary key (organization_id, id),
  check (type = 'team' or becomes_team or email is not null),
  check ((tax_id is null) = (tax_id_format is null))
);
create unique index customers_email on customers (organization_id, lower(email)) where deleted_at is null and not pure_holder;
create unique index customers_external_id on customers (organization_id, external_id) where deleted_at is null and not pure_holder;
create index customers_holder_email on customers (organization_id, lower(email)) where deleted_at is null and pure_holder;
create index customers_holder_external_id on customers (organization_id, external_id) where deleted_at is null and pure_holder;
create index customers_created on customers (organization_id, created_at, id) where deleted_at is null;
create index customers_by_email on customers (organization_id, (coalesce(email, '')), id) where deleted_at is null;
create index customers_by_name on customers (organization_id, (coalesce(name, '')), id) where deleted_at is null;
create index customers_default_method on customers (organization_id, default_payment_method_id) where default_payment_method_id is not null;
grant select, insert, update on customers to bursar_api;
grant select on customers to bursar_worker;

-- Living customers are counted apart from those that only hold seats, so that a total is exact in every phase.
create function count_customers() returns trigger language plpgsql as $$
begin
  insert into collection_deltas
    select organization_id, case when pure_holder then 'customers.holders' else 'customers' end, sum(one) from (
      select organization_id, pure_holder, 1 as one from arrived where deleted_at is null
    ) c group by 1, 2;
  return null;
end
$$;
create function recount_customers() returns trigger language plpgsql as $$
begin
  insert into collection_deltas
    select organization_id, case when pure_holder then 'customers.holders' else 'customers' end, sum(one) from (
      select organization_id, pure_holder, 1 as one from arrived where deleted_at is null
      union all
      select organization_id, pure_holder, -1 from departed where deleted_at is null
    ) c group by 1, 2 having sum(one) <> 0;
  return null;
end
$$;
create trigger customers_come after insert on customers referencing new table as arrived for each statement execute function count_customers();
create trigger customers_change after update on customers referencing old table as departed new table as arrived for each statement execute function recount_customers();

create table payment_methods (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  customer_id uuid not null,
  processor text not null check (processor in ('stripe')),
  type text not null,
  method_metadata jsonb,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  check ((type = 'card') = (method_metadata is not null))
);
create index payment_methods_customer on payment_methods (organization_id, customer_id, created_at, id) where deleted_at is null;
create index payment_methods_of on payment_methods (organization_id, customer_id);
grant select on payment_methods to bursar_api, bursar_worker;
alter table customers add foreign key (organization_id, default_payment_method_id) references payment_methods (organization_id, id);

create table members (
  organization_id uuid not null,
  id uuid not null,
  customer_id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  email text not null,
  name text,
  external_id text,
  role text not null check (role in ('owner', 'billing_manager', 'member')),
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create unique index members_email on members (organization_id, customer_id, lower(email)) where deleted_at is null;
create unique index members_external_id on members (organization_id, customer_id, external_id) where deleted_at is null and external_id is not null;
create unique index members_owner on members (organization_id, customer_id) where role = 'owner' and deleted_at is null;
create index members_customer on members (organization_id, customer_id, created_at, id);
create index members_created on members (organization_id, created_at, id) where deleted_at is null;
create index members_address on members (organization_id, lower(email)) where deleted_at is null;
grant select, insert, update on members to bursar_api;
grant select on members to bursar_worker;

create table customer_sessions (
  organization_id uuid not null,
  id uuid not null,
  customer_id uuid not null,
  -- Null: the customer itself, in an organization without the member model.
  member_id uuid,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  return_url text,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id)
);
create index customer_sessions_customer on customer_sessions (organization_id, customer_id);
create index customer_sessions_member on customer_sessions (organization_id, member_id);
create index customer_sessions_expiry on customer_sessions (expires_at);
grant select, insert, delete on customer_sessions to bursar_api;
grant select, delete on customer_sessions to bursar_worker;

-- A code that was asked for with an address of an organization. It is made by the job that sends it; only its hash is stored.
create table customer_session_codes (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  email text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  hash text,
  tries_left smallint not null check (tries_left >= 0),
  requests smallint not null,
  primary key (organization_id, id)
);
create unique index customer_session_codes_email on customer_session_codes (organization_id, lower(email));
create index customer_session_codes_expiry on customer_session_codes (expires_at);
grant select, insert, update, delete on customer_session_codes to bursar_api;
grant select, update, delete on customer_session_codes to bursar_worker;

-- A wish to change the address of a customer: granted to whoever proves to own the new one.
create table customer_email_changes (
  organization_id uuid not null,
  id uuid not null,
  customer_id uuid not null,
  member_id uuid,
  email text not null,
  previous_email text,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Granted, or withdrawn.
  closed_at timestamptz,
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id)
);
create unique index customer_email_changes_open on customer_email_changes (organization_id, customer_id) where closed_at is null;
create index customer_email_changes_customer on customer_email_changes (organization_id, customer_id, created_at);
create index customer_email_changes_member on customer_email_changes (organization_id, member_id);
create index customer_email_changes_expiry on customer_email_changes (expires_at);
grant select, insert, update, delete on customer_email_changes to bursar_api;
grant select, update, delete on customer_email_changes to bursar_worker;

alter table credentials drop constraint credentials_kind_check;
alter table credentials drop constraint credentials_check;
alter table credentials add constraint credentials_kind_check check (
  kind in ('organization', 'personal', 'session', 'invitation', 'customer_session', 'member_session', 'portal_code', 'email_change'));
alter table credentials add constraint credentials_check check ((organization_id is null) = (kind in ('personal', 'session')));

-- As before, and: which phase each organization is in, and who a portal session stands for. A session ends with its
-- member, its customer, and with the customer's existence in this phase.
drop function resolve_credential(text[], text[]);
create function resolve_credential(hashes text[], closed text[]) returns table (
  kind text, pepper smallint, credential_id uuid, organization_id uuid, scopes text[], expires_at timestamptz, created_at timestamptz,
  last_used_at timestamptz, user_id uuid, email text, is_operator boolean, memberships jsonb, member_phase text, customer_id uuid, member_id uuid, member_role text
) language plpgsql stable as $$
#variable_conflict use_column
declare
  c credentials;
begin
  select * into c from credentials where hash = any(hashes) limit 1;
  if c.kind = 'organization' then
    return query
      select c.kind, c.pepper, t.id, t.organization_id, t.scopes, t.expires_at, t.created_at, t.last_used_at, null::uuid, null::text, null::boolean, '[]'::jsonb,
        o.member_phase, null::uuid, null::uuid, null::text
      from organization_access_tokens t join organizations o on o.id = t.organization_id and o.deleted_at is null and o.status <> all(closed)
      where t.organization_id = c.organization_id and t.id = c.subject_id and t.revoked_at is null;
  elsif c.kind in ('personal', 'session') then
    return query
      select c.kind, c.pepper, s.id, null::uuid, s.scopes, s.expires_at, s.created_at, s.last_used_at, u.id, u.email, u.is_operator, coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role, 'phase', o.member_phase))
        from organization_members m join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(closed)
        where m.user_id = u.id), '[]'),
        null::text, null::uuid, null::uuid, null::text
      from (
        select t.id, t.user_id, t.scopes, t.expires_at, t.created_at, t.last_used_at from personal_access_tokens t where c.kind = 'personal' and t.id = c.subject_id and t.revoked_at is null
        union all
        select w.id, w.user_id, null, w.expires_at, w.created_at, null from user_sessions w where c.kind = 'session' and w.id = c.subject_id
      ) s join users u on u.id = s.user_id and u.deleted_at is null and u.blocked_at is null;
  elsif c.kind in ('customer_session', 'member_session') then
    return query
      select c.kind, c.pepper, s.id, s.organization_id, null::text[], s.expires_at::timestamptz, s.created_at::timestamptz, null::timestamptz, null::uuid, null::text, null::boolean, '[]'::jsonb,
        o.member_phase, s.customer_id, s.member_id, m.role
      from customer_sessions s
      join organizations o on o.id = s.organization_id and o.deleted_at is null and o.status <> all(closed)
      join customers p on p.organization_id = s.organization_id and p.id = s.customer_id and p.deleted_at is null and not (p.pure_holder and o.member_phase = 'phase2')
      left join members m on m.organization_id = s.organization_id and m.id = s.member_id and m.deleted_at is null
      where s.organization_id = c.organization_id and s.id = c.subject_id and (s.member_id is null or m.id is not null)
        and (c.kind = 'member_session') = (s.member_id is not null);
  end if;
end
$$;
