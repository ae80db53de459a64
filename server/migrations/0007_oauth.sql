-- Apps that act for people: clients, what each person allowed them, the tokens that came of it, the keys that sign
-- identities; and a second factor for signing in.

-- `id` is what the secrets in `credentials` belong to; `client_id` is the public name.
create table oauth_clients (
  client_id text primary key,
  id uuid not null unique,
  created_at timestamptz not null,
  modified_at timestamptz,
  deleted_at timestamptz,
  owner_id uuid references users (id),
  verified_at timestamptz,
  client_name text not null,
  client_uri text,
  logo_uri text,
  tos_uri text,
  policy_uri text,
  redirect_uris text[] not null check (cardinality(redirect_uris) > 0),
  token_endpoint_auth_method text not null check (token_endpoint_auth_method in ('client_secret_basic', 'client_secret_post', 'none')),
  grant_types text[] not null,
  scopes text[] not null,
  default_sub_type text not null check (default_sub_type in ('user', 'organization'))
);
create index oauth_clients_owner on oauth_clients (owner_id, created_at) where owner_id is not null;
grant select, insert, update on oauth_clients to bursar_api;
grant select on oauth_clients to bursar_worker;

-- What a person allowed an app, as it stands now: every token of the app for that person is held to it on each request.
-- `organizations` null: every organization the person belongs to, also later ones.
create table oauth_grants (
  client_id text not null references oauth_clients (client_id),
  user_id uuid not null references users (id),
  id uuid not null unique,
  created_at timestamptz not null,
  modified_at timestamptz,
  last_authorized_at timestamptz not null,
  scopes text[] not null,
  organizations uuid[] check (cardinality(organizations) > 0),
  primary key (client_id, user_id)
);
create index oauth_grants_user on oauth_grants (user_id, created_at);
grant select, insert, update, delete on oauth_grants to bursar_api;
grant select on oauth_grants to bursar_worker;

-- One authorization and everything that came of it: a code, then tokens. Ends as one.
create table oauth_families (
  id uuid primary key,
  client_id text not null,
  user_id uuid not null,
  created_at timestamptz not null,
  scopes text[] not null,
  foreign key (client_id, user_id) references oauth_grants (client_id, user_id) on delete cascade
);
create index oauth_families_grant on oauth_families (client_id, user_id);
create index oauth_families_age on oauth_families (created_at);
grant select, insert, delete on oauth_families to bursar_api;
grant select, delete on oauth_families to bursar_worker;

-- `parent_id`: the refresh token that this one replaced. `consumed_from`: a digest of the address that used it up.
create table oauth_tokens (
  id uuid primary key,
  kind text not null check (kind in ('oauth_access', 'oauth_refresh', 'oauth_code')),
  family_id uuid not null references oauth_families (id) on delete cascade,
  parent_id uuid,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  consumed_at timestamptz,
  consumed_from text,
  scopes text[] not null,
  payload jsonb not null
);
create index oauth_tokens_family on oauth_tokens (family_id);
create index oauth_tokens_expired on oauth_tokens (expires_at);
create index oauth_tokens_parent on oauth_tokens (parent_id) where parent_id is not null;
grant select, insert, delete on oauth_tokens to bursar_api;
grant update (consumed_at, consumed_from) on oauth_tokens to bursar_api;
grant select, delete on oauth_tokens to bursar_worker;

-- What a browser is in the middle of: kept under the hash of the id in its cookie.
create table oauth_visits (
  kind text not null check (kind in ('Session', 'Interaction')),
  hash text not null,
  uid text,
  payload jsonb not null,
  expires_at timestamptz not null,
  primary key (kind, hash)
);
create index oauth_visits_uid on oauth_visits (uid) where uid is not null;
create index oauth_visits_expired on oauth_visits (expires_at);
grant select, insert, update, delete on oauth_visits to bursar_api;
grant select, delete on oauth_visits to bursar_worker;

-- The keys that sign identities. A key is published before it signs and after it has stopped signing; a retired one has
-- lost its private half.
create table signing_keys (
  kid text primary key,
  state text not null check (state in ('next', 'active', 'retiring', 'retired')),
  public_jwk jsonb not null,
  sealed text,
  created_at timestamptz not null,
  changed_at timestamptz not null,
  check ((state = 'retired') = (sealed is null))
);
create unique index signing_keys_active on signing_keys (state) where state = 'active';
create unique index signing_keys_next on signing_keys (state) where state = 'next';
grant select, insert, update on signing_keys to bursar_api, bursar_worker;

alter table user_sessions add column second_factor boolean not null default false;
grant update (second_factor) on user_sessions to bursar_api;

-- `session_id` is the session that began it: until it is confirmed it counts there alone, and for ten minutes.
-- `last_step` is the time step of the last code that was accepted: none works twice. Tries are counted by the hour.
create table second_factors (
  user_id uuid primary key references users (id),
  session_id uuid not null,
  sealed text not null,
  created_at timestamptz not null,
  confirmed_at timestamptz,
  last_step bigint not null default 0,
  tries integer not null default 0,
  tries_since timestamptz not null
);
grant select, insert, update, delete on second_factors to bursar_api;

create table recovery_codes (
  user_id uuid not null references second_factors (user_id) on delete cascade,
  hash text not null,
  primary key (user_id, hash)
);
grant select, insert, delete on recovery_codes to bursar_api;

-- Signed in by mail, second factor still to come.
create table pending_sign_ins (
  id uuid primary key,
  user_id uuid not null references users (id),
  created_at timestamptz not null,
  expires_at timestamptz not null,
  tries_left integer not null
);
create index pending_sign_ins_user on pending_sign_ins (user_id);
grant select, insert, update, delete on pending_sign_ins to bursar_api;
grant select, delete on pending_sign_ins to bursar_worker;

alter table credentials drop constraint credentials_kind_check;
alter table credentials drop constraint credentials_check;
alter table credentials add constraint credentials_kind_check check (kind in (
  'organization', 'personal', 'session', 'invitation', 'customer_session', 'member_session', 'portal_code', 'email_change',
  'oauth_access', 'oauth_refresh', 'oauth_code', 'client_secret', 'client_registration', 'sign_in'));
alter table credentials add constraint credentials_check check ((organization_id is null) = (kind in (
  'personal', 'session', 'oauth_access', 'oauth_refresh', 'oauth_code', 'client_secret', 'client_registration', 'sign_in')));

drop function resolve_credential(text[], text[]);
create function resolve_credential(hashes text[], closed text[]) returns table (
  kind text, pepper smallint, credential_id uuid, organization_id uuid, scopes text[], expires_at timestamptz, created_at timestamptz,
  last_used_at timestamptz, user_id uuid, email text, is_operator boolean, memberships jsonb, member_phase text, customer_id uuid, member_id uuid, member_role text,
  client_id text, second_factor boolean, restricted boolean
) language plpgsql stable as $$
#variable_conflict use_column
declare
  c credentials;
begin
  select * into c from credentials where hash = any(hashes) limit 1;
  if c.kind = 'organization' then
    return query
      select c.kind, c.pepper, t.id, t.organization_id, t.scopes, t.expires_at, t.created_at, t.last_used_at, null::uuid, null::text, null::boolean, '[]'::jsonb,
        o.member_phase, null::uuid, null::uuid, null::text, null::text, null::boolean, false
      from organization_access_tokens t join organizations o on o.id = t.organization_id and o.deleted_at is null and o.status <> all(closed)
      where t.organization_id = c.organization_id and t.id = c.subject_id and t.revoked_at is null;
  elsif c.kind in ('personal', 'session') then
    return query
      select c.kind, c.pepper, s.id, null::uuid, s.scopes, s.expires_at, s.created_at, s.last_used_at, u.id, u.email, u.is_operator, coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role, 'phase', o.member_phase))
        from organization_members m join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(closed)
        where m.user_id = u.id), '[]'),
        null::text, null::uuid, null::uuid, null::text, null::text, s.second_factor, false
      from (
        select t.id, t.user_id, t.scopes, t.expires_at, t.created_at, t.last_used_at, null::boolean as second_factor
        from personal_access_tokens t where c.kind = 'personal' and t.id = c.subject_id and t.revoked_at is null
        union all
        select w.id, w.user_id, null, w.expires_at, w.created_at, null, w.second_factor from user_sessions w where c.kind = 'session' and w.id = c.subject_id
      ) s join users u on u.id = s.user_id and u.deleted_at is null and u.blocked_at is null;
  elsif c.kind = 'oauth_access' then
    -- What the token was given, as far as the person still allows it, the client still may, and the person still belongs.
    return query
      select c.kind, c.pepper, t.id, null::uuid, array(select s from unnest(t.scopes) s where s = any(g.scopes) and s = any(a.scopes)),
        t.expires_at, t.created_at, null::timestamptz, u.id, u.email, false, coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role, 'phase', o.member_phase))
        from organization_members m join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(closed)
        where m.user_id = u.id and (g.organizations is null or m.organization_id = any(g.organizations))), '[]'),
        null::text, null::uuid, null::uuid, null::text, a.client_id, null::boolean, g.organizations is not null
      from oauth_tokens t
      join oauth_families f on f.id = t.family_id
      join oauth_grants g on g.client_id = f.client_id and g.user_id = f.user_id
      join oauth_clients a on a.client_id = f.client_id and a.deleted_at is null
      join users u on u.id = f.user_id and u.deleted_at is null and u.blocked_at is null
      where t.id = c.subject_id and t.kind = 'oauth_access';
  elsif c.kind in ('customer_session', 'member_session') then
    return query
      select c.kind, c.pepper, s.id, s.organization_id, null::text[], s.expires_at::timestamptz, s.created_at::timestamptz, null::timestamptz, null::uuid, null::text, null::boolean, '[]'::jsonb,
        o.member_phase, s.customer_id, s.member_id, m.role, null::text, null::boolean, false
      from customer_sessions s
      join organizations o on o.id = s.organization_id and o.deleted_at is null and o.status <> all(closed)
      join customers p on p.organization_id = s.organization_id and p.id = s.customer_id and p.deleted_at is null and not (p.pure_holder and o.member_phase = 'phase2')
      left join members m on m.organization_id = s.organization_id and m.id = s.member_id and m.deleted_at is null
      where s.organization_id = c.organization_id and s.id = c.subject_id and (s.member_id is null or m.id is not null)
        and (c.kind = 'member_session') = (s.member_id is not null);
  end if;
end
$$;
