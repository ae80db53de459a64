-- Addresses that make a checkout for whoever opens them, and what a customer has with us as the customer sees it.

create table checkout_links (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  deleted_at timestamptz(3),
  -- Found by its hash among the credentials; shown again to the seller.
  secret_sealed text not null,
  label text,
  discount_id uuid,
  allow_discount_codes boolean not null,
  require_billing_address boolean not null,
  seats integer check (seats between 1 and 10000),
  trial_interval text,
  trial_interval_count integer,
  success_url text,
  return_url text,
  metadata jsonb not null,
  primary key (organization_id, id),
  foreign key (organization_id, discount_id) references discounts (organization_id, id),
  check ((trial_interval is null) = (trial_interval_count is null))
);
create index checkout_links_created on checkout_links (organization_id, created_at, id) where deleted_at is null;
create index checkout_links_label on checkout_links (organization_id, (coalesce(label, '')), id) where deleted_at is null;
create index checkout_links_success on checkout_links (organization_id, (coalesce(success_url, '')), id) where deleted_at is null;
create index checkout_links_codes on checkout_links (organization_id, (allow_discount_codes::integer::bigint), id) where deleted_at is null;
create index checkout_links_discount on checkout_links (organization_id, discount_id);
grant select, insert, update on checkout_links to bursar_api;
grant select, update on checkout_links to bursar_worker;

-- The products to choose from. One that is archived leaves.
create table checkout_link_products (
  organization_id uuid not null,
  checkout_link_id uuid not null,
  product_id uuid not null,
  position integer not null,
  primary key (organization_id, checkout_link_id, product_id),
  foreign key (organization_id, checkout_link_id) references checkout_links (organization_id, id),
  foreign key (organization_id, product_id) references products (organization_id, id)
);
create index checkout_link_products_product on checkout_link_products (organization_id, product_id);
grant select, insert, delete on checkout_link_products to bursar_api;
grant select, delete on checkout_link_products to bursar_worker;

alter table credentials drop constraint credentials_kind_check;
alter table credentials add constraint credentials_kind_check check (kind in (
  'organization', 'personal', 'session', 'invitation', 'customer_session', 'member_session', 'portal_code', 'email_change',
  'oauth_access', 'oauth_refresh', 'oauth_code', 'client_secret', 'client_registration', 'sign_in', 'checkout', 'checkout_link', 'seat_invitation'));

call note_changes_of('checkout_links', 'checkout_link_products');

-- A balance can be named, and says since when it is there and when it last moved. The ledger knows both of the old ones.
alter table customer_balances add column id uuid, add column created_at timestamptz(3), add column modified_at timestamptz(3);
update customer_balances b set id = gen_random_uuid(), (created_at, modified_at) = (
  select coalesce(min(t.business_at), (select c.created_at from customers c where c.organization_id = b.organization_id and c.id = b.customer_id)), max(t.business_at)
  from ledger_entries e join ledger_transactions t on t.organization_id = e.organization_id and t.id = e.transaction_id
  where e.organization_id = b.organization_id and e.customer_id = b.customer_id and e.account = 'customer_balance' and e.currency = b.currency);
alter table customer_balances alter column id set not null, alter column created_at set not null;
create unique index customer_balances_id on customer_balances (organization_id, id);
