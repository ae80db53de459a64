-- Every list finds its page by an index: in its own order, and by each of its filters. What a filter leaves is found in one
-- of four ways, and an index is here only where none of the others would do:
--   1. The index has the filter's column before the order of the list: the page is its first rows.
--   2. A filter that one side passes rarely and the other nearly always has an index of the rare side alone. Whoever asks
--      for the other goes through the list in its own order, and has a page at once. Such an index costs those rows only.
--   3. Parts of texts, pairs of metadata and moments other than the order's are found as they are, and what was found is
--      sorted, where that is less than going through the list. The planner knows how common a value is, and takes the lesser.
--   4. The numbers of a log run with time, and ids begin with it: the key of the table knows where a moment lies.
-- Writing pays for each of them. Tables that are written by hand – products, benefits, discounts, meters, fields, files –
-- hardly notice; those that grow with every sale have what they need and no more.

-- Parts of texts; and keys of a tenant in the same index as those parts, so that a word of one is not sought among all.
create extension if not exists pg_trgm;
create extension if not exists btree_gin;

-- People and what belongs to them.
create index organization_members_created on organization_members (organization_id, created_at, user_id);
create index organization_invitations_created on organization_invitations (organization_id, created_at, id);
create index organization_access_tokens_created on organization_access_tokens (organization_id, created_at, id) where revoked_at is null;
create index personal_access_tokens_created on personal_access_tokens (user_id, created_at, id) where revoked_at is null;
drop index oauth_clients_owner;
create index oauth_clients_owner on oauth_clients (owner_id, created_at, id) where owner_id is not null;
drop index oauth_grants_user;
create index oauth_grants_user on oauth_grants (user_id, created_at, id);

-- What is sold.
create index products_recurring on products (organization_id, (recurring_interval is not null), created_at, id);
create index products_text on products using gin (organization_id, name gin_trgm_ops);
create index products_metadata on products using gin (organization_id, metadata jsonb_path_ops) where metadata <> '{}';
create index meters_archived on meters (organization_id, (archived_at is not null), name, id);
create index meters_text on meters using gin (organization_id, name gin_trgm_ops);
create index meters_metadata on meters using gin (organization_id, metadata jsonb_path_ops) where metadata <> '{}';
create index discounts_text on discounts using gin (organization_id, name gin_trgm_ops, code gin_trgm_ops) where deleted_at is null;
create index benefits_type on benefits (organization_id, type, created_at, id) where deleted_at is null;
create index benefits_text on benefits using gin (organization_id, description gin_trgm_ops) where deleted_at is null;
create index benefits_metadata on benefits using gin (organization_id, metadata jsonb_path_ops) where deleted_at is null and metadata <> '{}';
create index files_service on files (organization_id, service, created_at, id) where deleted_at is null and state = 'ready';
create index benefit_files_position on benefit_files (organization_id, benefit_id, position, file_id);
create index custom_fields_type on custom_fields (organization_id, type, slug, id) where deleted_at is null;
create index custom_fields_text on custom_fields using gin (organization_id, name gin_trgm_ops, slug gin_trgm_ops) where deleted_at is null;

-- Who buys. An address or an id of the seller's own is looked up whoever has it: those who only hold seats were in an index
-- of their own, which no statement could use that does not know beforehand which of the two it looks for.
drop index customers_holder_email;
create index customers_address on customers (organization_id, lower(email)) where deleted_at is null;
drop index customers_holder_external_id;
create index customers_external on customers (organization_id, external_id) where external_id is not null;
create index customers_text on customers using gin (organization_id, name gin_trgm_ops, email gin_trgm_ops, external_id gin_trgm_ops) where deleted_at is null;
create index customers_metadata on customers using gin (organization_id, metadata jsonb_path_ops) where deleted_at is null and metadata <> '{}';
-- Those who are no customers any more: what hangs on a customer is shown unless it hangs on one of these.
create index customers_hidden on customers (organization_id, id) where deleted_at is not null or pure_holder;
create index members_role on members (organization_id, role, created_at, id) where deleted_at is null;

-- What was bought. Subscriptions stand where they started, and one that has not yet, where it was made.
drop index subscriptions_status, subscriptions_customer, subscriptions_product, subscriptions_discount;
create index subscriptions_status on subscriptions (organization_id, status, (coalesce(started_at, created_at)), id);
create index subscriptions_customer on subscriptions (organization_id, customer_id, (coalesce(started_at, created_at)), id);
create index subscriptions_product on subscriptions (organization_id, product_id, (coalesce(started_at, created_at)), id);
create index subscriptions_discount on subscriptions (organization_id, discount_id, (coalesce(started_at, created_at)), id) where discount_id is not null;
create index subscriptions_ending on subscriptions (organization_id, (coalesce(started_at, created_at)), id) where cancel_at_period_end;
create index subscriptions_reason on subscriptions (organization_id, customer_cancellation_reason, (coalesce(started_at, created_at)), id)
  where customer_cancellation_reason is not null;
create index subscriptions_canceled on subscriptions (organization_id, canceled_at) where canceled_at is not null;
create index subscriptions_metadata on subscriptions using gin (organization_id, metadata jsonb_path_ops) where metadata <> '{}';
create index orders_metadata on orders using gin (organization_id, metadata jsonb_path_ops) where metadata <> '{}';
create index payments_unpaid on payments (organization_id, status, created_at, id) where kind = 'payment' and status <> 'succeeded';
create index payments_by_method on payments (organization_id, (coalesce(method, 'unknown')), created_at, id) where kind = 'payment';
create index refunds_unsuccessful on refunds (organization_id, created_at, id) where status <> 'succeeded';
create index checkouts_external on checkouts (organization_id, external_customer_id, created_at, id) where external_customer_id is not null;
create index checkouts_text on checkouts using gin (organization_id, customer_name gin_trgm_ops, customer_email gin_trgm_ops)
  where customer_name is not null or customer_email is not null;

-- What is held.
create index benefit_grants_buyer on benefit_grants (organization_id, buyer_customer_id, created_at, id);
drop index benefit_grants_subscription, benefit_grants_order;
create index benefit_grants_subscription on benefit_grants (organization_id, subscription_id, created_at, id) where subscription_id is not null;
create index benefit_grants_order on benefit_grants (organization_id, order_id, created_at, id) where order_id is not null;
create index benefit_grants_ungranted on benefit_grants (organization_id, created_at, id) where granted_at is null;
create index benefit_grants_ungranted_of on benefit_grants (organization_id, benefit_id, created_at, id) where granted_at is null;
drop index license_keys_buyer;
create index license_keys_buyer on license_keys (organization_id, buyer_customer_id, created_at, id);
create index license_keys_withheld on license_keys (organization_id, status, created_at, id) where status <> 'granted';

-- What happened, and who was told.
create index events_kind on events (organization_id, kind, sequence) where sequence is not null;
create index audit_log_operation on audit_log (organization_id, operation, sequence) where sequence is not null;
create index webhook_attempts_kind on webhook_attempts (organization_id, kind, created_at, id);
create index webhook_attempts_failed on webhook_attempts (organization_id, created_at, id) where not succeeded;
create index webhook_attempts_code on webhook_attempts (organization_id, (http_code / 100), created_at, id) where http_code / 100 <> 2;

-- How many there are of what grows with every sale is not counted for each page.
create function count_payments() returns trigger language plpgsql as $$
begin
  insert into collection_deltas select organization_id, 'payments', count(*) from changed where kind = 'payment' group by organization_id;
  return null;
end
$$;
create trigger payments_come after insert on payments referencing new table as changed for each statement execute function count_payments();
create trigger webhook_attempts_come after insert on webhook_attempts referencing new table as changed for each statement execute function count_rows('webhook_attempts');
insert into collection_deltas
  select organization_id, 'payments', count(*) from payments where kind = 'payment' group by 1
  union all
  select organization_id, 'webhook_attempts', count(*) from webhook_attempts group by 1;

-- How many have an address, for the planner: an index of some rows tells it nothing about all.
create statistics customers_address_values on (lower(email)) from customers;
