-- When the person of a session last proved who they are, if that was after the session began. A code by mail renews the
-- sign-in of a session, so that the person need not sign in again for an operation that needs a recent sign-in.
alter table user_sessions add column signed_in_at timestamptz;
grant update (signed_in_at) on user_sessions to bursar_api;

-- `created_at` of a session is the moment of its last sign-in. Everything else is as before.
create or replace function resolve_credential(hashes text[], closed text[]) returns table (
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
        select w.id, w.user_id, null, w.expires_at, coalesce(w.signed_in_at, w.created_at), null, w.second_factor from user_sessions w where c.kind = 'session' and w.id = c.subject_id
      ) s join users u on u.id = s.user_id and u.deleted_at is null and u.blocked_at is null;
  elsif c.kind = 'oauth_access' then
    -- Scopes: those of the token that the grant and the client still have. Organizations: those of the authorization to which the person still belongs.
    return query
      select c.kind, c.pepper, t.id, null::uuid, array(select s from unnest(t.scopes) s where s = any(g.scopes) and s = any(a.scopes)),
        t.expires_at, t.created_at, null::timestamptz, u.id, u.email, false, coalesce((
        select jsonb_agg(jsonb_build_object('organization_id', m.organization_id, 'role', m.role, 'phase', o.member_phase))
        from organization_members m join organizations o on o.id = m.organization_id and o.deleted_at is null and o.status <> all(closed)
        where m.user_id = u.id and (f.organizations is null or m.organization_id = any(f.organizations))), '[]'),
        null::text, null::uuid, null::uuid, null::text, a.client_id, null::boolean, f.organizations is not null
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
