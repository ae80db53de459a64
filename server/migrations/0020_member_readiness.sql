-- What each integration still does, while its organization prepares for members, that will not work afterwards: how often,
-- when last, and by which operation. Counted in memory and added here now and then.
create table member_readiness (
  organization_id uuid not null references organizations (id),
  kind text not null check (kind in ('organization_token', 'personal_token', 'session', 'oauth_client')),
  -- Of the token, of the app, or of the person whose session it is.
  id text not null,
  -- `seen`: it did something at all.
  finding text not null check (finding in ('seen', 'fetched_holder', 'filtered_by_holder', 'assigned_by_customer', 'session_without_member')),
  count bigint not null,
  last_seen_at timestamptz(3) not null,
  sample text not null,
  primary key (organization_id, kind, id, finding)
);
grant select, insert, update on member_readiness to bursar_api;
