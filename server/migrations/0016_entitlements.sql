-- Who holds what: seats that a buyer gives to people, and what products give to those who have them.

-- A place in a subscription or an order, given to one person. Buyer and holder stand apart: which of them is shown as the
-- customer depends on the phase of the organization, and on nothing that is written here.
create table seats (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  subscription_id uuid,
  order_id uuid,
  status text not null check (status in ('pending', 'claimed', 'revoked')),
  buyer_customer_id uuid not null,
  -- Who holds it as a customer of their own, in an organization without the member model.
  holder_customer_id uuid,
  -- Who holds it as a member of the buyer; unknown only of what was there before members were.
  member_id uuid,
  -- Kept when it is revoked: whose it was is still to be told.
  email text not null,
  invitation_expires_at timestamptz(3),
  claimed_at timestamptz(3),
  revoked_at timestamptz(3),
  metadata jsonb not null,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, buyer_customer_id) references customers (organization_id, id),
  foreign key (organization_id, holder_customer_id) references customers (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id),
  check ((subscription_id is null) <> (order_id is null)),
  check ((status = 'pending') = (invitation_expires_at is not null)),
  check ((status = 'revoked') = (revoked_at is not null)),
  check (status <> 'claimed' or claimed_at is not null)
);
-- Nobody holds two places of the same pool.
create unique index seats_of_subscription on seats (organization_id, subscription_id, member_id) where status <> 'revoked' and subscription_id is not null;
create unique index seats_of_order on seats (organization_id, order_id, member_id) where status <> 'revoked' and order_id is not null;
create index seats_subscription on seats (organization_id, subscription_id, created_at, id);
create index seats_order on seats (organization_id, order_id, created_at, id);
create index seats_address on seats (organization_id, lower(email));
create index seats_buyer on seats (organization_id, buyer_customer_id);
create index seats_holder on seats (organization_id, holder_customer_id);
create index seats_member on seats (organization_id, member_id, created_at, id);
create index seats_due on seats (due_at) where due_at is not null and clock_id is null;
create index seats_clock on seats (organization_id, clock_id, due_at) where clock_id is not null;
grant select, insert, update on seats to bursar_api, bursar_worker;
-- Whoever buys seats becomes a team, also where a worker hears of the payment.
grant update (becomes_team, pure_holder, modified_at) on customers to bursar_worker;

alter table credentials drop constraint credentials_kind_check;
alter table credentials add constraint credentials_kind_check check (kind in (
  'organization', 'personal', 'session', 'invitation', 'customer_session', 'member_session', 'portal_code', 'email_change',
  'oauth_access', 'oauth_refresh', 'oauth_code', 'client_secret', 'client_registration', 'sign_in', 'checkout', 'seat_invitation'));

-- What it gave was taken back with a refund.
alter table orders add column benefits_revoked_at timestamptz(3);

-- What one recipient has of one benefit, through one purchase or by the seller's own hand. A row is made once, and goes
-- from granted to revoked and back.
create table benefit_grants (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  benefit_id uuid not null,
  subscription_id uuid,
  order_id uuid,
  -- The seat that it is held by now.
  seat_id uuid,
  buyer_customer_id uuid not null,
  holder_customer_id uuid,
  -- Null: it is the customer's own, and whoever owns the customer has it.
  member_id uuid,
  -- Given by the seller, not bought.
  is_manual boolean not null,
  -- Taken away by the seller, whatever is bought.
  is_withheld boolean not null,
  -- Whether it is to be there. What is outside follows later.
  is_wanted boolean not null,
  granted_at timestamptz(3),
  revoked_at timestamptz(3),
  properties jsonb not null,
  error jsonb,
  attempts integer not null,
  -- Where and as whom its recipient was let in outside, as long as they are.
  place text,
  account text,
  -- The period that it was last renewed for.
  cycled_for timestamptz(3),
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, benefit_id) references benefits (organization_id, id),
  foreign key (organization_id, subscription_id) references subscriptions (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, seat_id) references seats (organization_id, id),
  foreign key (organization_id, buyer_customer_id) references customers (organization_id, id),
  foreign key (organization_id, holder_customer_id) references customers (organization_id, id),
  foreign key (organization_id, member_id) references members (organization_id, id),
  check (subscription_id is null or order_id is null),
  check (is_manual = (subscription_id is null and order_id is null)),
  check (granted_at is null or revoked_at is null),
  check (account is null or place is not null)
);
create unique index benefit_grants_one on benefit_grants
  (organization_id, buyer_customer_id, benefit_id, subscription_id, order_id, member_id, holder_customer_id) nulls not distinct;
create index benefit_grants_created on benefit_grants (organization_id, created_at, id);
create index benefit_grants_benefit on benefit_grants (organization_id, benefit_id, created_at, id);
create index benefit_grants_subscription on benefit_grants (organization_id, subscription_id);
create index benefit_grants_order on benefit_grants (organization_id, order_id);
create index benefit_grants_seat on benefit_grants (organization_id, seat_id);
create index benefit_grants_holder on benefit_grants (organization_id, holder_customer_id);
create index benefit_grants_member on benefit_grants (organization_id, member_id);
create index benefit_grants_place on benefit_grants (organization_id, place, account) where place is not null;
create index benefit_grants_due on benefit_grants (due_at) where due_at is not null;
create trigger benefit_grants_come after insert on benefit_grants referencing new table as changed for each statement execute function count_rows('benefit_grants');
grant select, insert, update on benefit_grants to bursar_api, bursar_worker;

-- A benefit is held as it is while it is given.
grant update (modified_at) on benefits to bursar_worker;

-- Units that a grant has put on a meter: once for each period, whatever happens to the grant meanwhile.
create table meter_credits (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  grant_id uuid not null,
  meter_id uuid not null,
  customer_id uuid not null,
  units bigint not null check (units > 0),
  rollover boolean not null,
  period_start timestamptz(3),
  primary key (organization_id, id),
  foreign key (organization_id, grant_id) references benefit_grants (organization_id, id),
  foreign key (organization_id, meter_id) references meters (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id)
);
create unique index meter_credits_once on meter_credits (organization_id, grant_id, period_start) nulls not distinct;
create index meter_credits_meter on meter_credits (organization_id, meter_id, customer_id, created_at);
create index meter_credits_customer on meter_credits (organization_id, customer_id);
grant select, insert on meter_credits to bursar_api, bursar_worker;

-- Until when what a subscription gives stays although its payment failed.
create table benefit_graces (
  organization_id uuid not null,
  -- That of the subscription.
  id uuid not null,
  due_at timestamptz,
  clock_id uuid,
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, id) references subscriptions (organization_id, id)
);
create index benefit_graces_due on benefit_graces (due_at) where due_at is not null and clock_id is null;
create index benefit_graces_clock on benefit_graces (organization_id, clock_id, due_at) where clock_id is not null;
grant select, insert, update on benefit_graces to bursar_api, bursar_worker;

-- Whose state is to be told: however much changes within a moment, it is told once after it.
create table customer_states (
  organization_id uuid not null,
  -- That of the customer.
  id uuid not null,
  due_at timestamptz,
  clock_id uuid check (clock_id is null),
  lease_until timestamptz,
  lease_token uuid,
  lease_holder text,
  primary key (organization_id, id),
  foreign key (organization_id, id) references customers (organization_id, id)
);
create index customer_states_due on customer_states (due_at) where due_at is not null;
grant select, insert, update on customer_states to bursar_api, bursar_worker;

call note_changes_of('seats', 'benefit_grants');
