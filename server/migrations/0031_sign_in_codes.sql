-- Several codes of one mailbox are live at the same time. Each code belongs to the browser that asked for it.
-- Live codes end with this migration: a person who waits for one asks again.
delete from sign_in_codes;
delete from customer_session_codes;

-- network: keyed digest of the network the request came from. browser: keyed hash of the requesting browser's cookie.
-- recognised: the browser had signed in with this mailbox before, and spends its own allowance.
-- tries_left counts tries of the requesting browser, near_tries_left those of others in its network, far_tries_left the rest.
alter table sign_in_codes
  drop column requests,
  add column network text not null,
  add column browser text not null,
  add column recognised boolean not null,
  add column near_tries_left smallint not null check (near_tries_left >= 0),
  add column far_tries_left smallint not null check (far_tries_left >= 0);
alter table customer_session_codes
  drop column requests,
  add column network text not null,
  add column browser text not null,
  add column recognised boolean not null,
  add column near_tries_left smallint not null check (near_tries_left >= 0),
  add column far_tries_left smallint not null check (far_tries_left >= 0);

drop index sign_in_codes_email;
drop index customer_session_codes_email;
create index sign_in_codes_email on sign_in_codes (lower(email), created_at);
create index customer_session_codes_email on customer_session_codes (organization_id, lower(email), created_at);
