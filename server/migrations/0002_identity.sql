-- People, who runs which organization, and every secret that lets somebody in.

create table users (
  id uuid primary key,
  created_at timestamptz not null,
  modified_at timestamptz,
  deleted_at timestamptz,
  email text not null,
  email_verified boolean not null default false,
  avatar_url text,
  is_operator boolean not null default false,
  blocked_at timestamptz
);
create unique index users_email on users (lower(email)) where deleted_at is null;
grant select, insert, update on users to bursar_api;
grant select on users to bursar_worker;

create table organization_members (
  organization_id uuid not null references organizations (id),
  user_id uuid not null references users (id),
  role text not null check (role in ('owner', 'admin', 'finance', 'member')),
  created_at timestamptz not null,
  modified_at timestamptz,
  primary key (organization_id, user_id)
);
create unique index organization_members_owner on organization_members (organization_id) where role = 'owner';
create index organization_members_user on organization_members (user_id, organization_id);
grant select, insert, update, delete on organization_members to bursar_api;
grant select on organization_members to bursar_worker;

-- `due_at` is the moment the invitation expires, and null once nothing is left to do.
create table organization_invitations (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz not null,
  modified_at timestamptz,
  email text not null,
  role text not null check (role in ('admin', 'finance', 'member')),
  status text not null check (status in ('pending', 'accepted', 'expired')),
  invited_by uuid references users (id),
  expires_at timestamptz not null,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id)
);
create unique index organization_invitations_open on organization_invitations (organization_id, lower(email)) where status = 'pending';
create index organization_invitations_due on organization_invitations (due_at) where due_at is not null;
create index organization_invitations_leased on organization_invitations (lease_holder) where lease_holder is not null;
create index organization_invitations_address on organization_invitations (lower(email)) where status = 'pending';
create index organization_invitations_inviter on organization_invitations (invited_by);
grant select, insert, update, delete on organization_invitations to bursar_api;
grant select, update on organization_invitations to bursar_worker;

create table organization_access_tokens (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz not null,
  modified_at timestamptz,
  comment text not null,
  scopes text[] not null,
  hint text not null,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz,
  primary key (organization_id, id)
);
grant select, insert, update on organization_access_tokens to bursar_api;
grant select on organization_access_tokens to bursar_worker;

create table personal_access_tokens (
  id uuid primary key,
  user_id uuid not null references users (id),
  created_at timestamptz not null,
  modified_at timestamptz,
  comment text not null,
  scopes text[] not null,
  hint text not null,
  expires_at timestamptz,
  last_used_at timestamptz,
  revoked_at timestamptz
);
create index personal_access_tokens_user on personal_access_tokens (user_id);
grant select, insert, update on personal_access_tokens to bursar_api;
grant select on personal_access_tokens to bursar_worker;

create table user_sessions (
  id uuid primary key,
  user_id uuid not null references users (id),
  created_at timestamptz not null,
  expires_at timestamptz not null
);
create index user_sessions_user on user_sessions (user_id);
create index user_sessions_expiry on user_sessions (expires_at);
grant select, insert, delete on user_sessions to bursar_api;
grant select, delete on user_sessions to bursar_worker;

-- Every secret, once: the keyed hash leads to the row it opens. Deleting the row ends the secret with the next request.
create table credentials (
  hash text primary key check (hash ~ '^[0-9a-f]{64}$'),
  pepper smallint not null,
  kind text not null check (kind in ('organization', 'personal', 'session', 'invitation')),
  subject_id uuid not null,
  organization_id uuid references organizations (id),
  check ((organization_id is not null) = (kind in ('organization', 'invitation')))
);
create index credentials_subject on credentials (subject_id);
create index credentials_organization on credentials (organization_id) where organization_id is not null;
grant select, insert, update, delete on credentials to bursar_api;
grant select, insert, delete on credentials to bursar_worker;

-- A code sent to an address. The code is made by the job that sends it, so that only its hash is ever stored.
create table sign_in_codes (
  id uuid primary key,
  email text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  hash text,
  tries_left smallint not null check (tries_left >= 0)
);
create unique index sign_in_codes_email on sign_in_codes (lower(email));
create index sign_in_codes_expiry on sign_in_codes (expires_at);
grant select, insert, update, delete on sign_in_codes to bursar_api;
grant select, update, delete on sign_in_codes to bursar_worker;

-- Everything a request needs to know about its bearer, in one step. A function, because its statements keep their
-- plans for the life of a connection: planned anew each time, this join costs ten times what it takes to run.
-- Nothing comes back for a credential that is unknown, revoked or orphaned; organizations in a closed status let nobody in.
create function resolve_credential(hashes text[], closed text[]) returns table (
  kind text, pepper smallint, credential_id uuid, organization_id uuid, scopes text[], expires_at timestamptz, created_at timestamptz,
  last_used_at timestamptz, user_id uuid, email text, is_operator boolean, memberships jsonb
) language plpgsql stable as $$
#variable_conflict use_column
declare
  c credentials;
begin
  select * into c from credentials where hash = any(hashes) limit 1;
  if c.kind = 'organization' then
    return query
      select c.kind, c.pepper, t.id, t.organization_id, t.scopes, t.expires_at, t.created_at, t.last_used_at, null::uuid, null::text, null::boolean, '[]'::jsonb
      from organization_access_tokens t join organizations o on o.id = t.organization_id and o.deleted_at is null and o.status <> all(closed)
      where t.organization_id = c.organization_id and t.id = c.subject_id and t.revoked_at is null;
  elsif c.kind in ('personal', 'session') then
    return query
      select c.kind, c.pepper, s.id, null::uuid, s.scopes, s.expires_at, s.created_at, s.last_used_at, u.id, u.email, u.is_operator, coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role))
        from organization_members m join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(closed)
        where m.user_id = u.id), '[]')
      from (
        select t.id, t.user_id, t.scopes, t.expires_at, t.created_at, t.last_used_at from personal_access_tokens t where c.kind = 'personal' and t.id = c.subject_id and t.revoked_at is null
        union all
        select w.id, w.user_id, null, w.expires_at, w.created_at, null from user_sessions w where c.kind = 'session' and w.id = c.subject_id
      ) s join users u on u.id = s.user_id and u.deleted_at is null and u.blocked_at is null;
  end if;
end
$$;
