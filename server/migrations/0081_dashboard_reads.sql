-- Indexes and columns for what the dashboard shows: events of a customer, the health of an endpoint, mails about an order, search.

-- Lists the events of a customer by their number. It replaces the index of the same columns without the number.
drop index events_customer;
create index events_customer on events (organization_id, customer_id, sequence) where customer_id is not null;

-- Lists the events of an endpoint with the state of their deliveries, newest first.
create index webhook_deliveries_endpoint on webhook_deliveries (organization_id, endpoint_id, sequence);

-- The order that a mail is about. Null for other mails. Mails about an order are stored even if bounces do not return to Bursar.
alter table sent_mails add column order_id uuid;
create index sent_mails_order on sent_mails (organization_id, order_id, created_at) where order_id is not null;

-- Search by the beginning of an address or a name. The first index also finds whole addresses, like the one that it replaces.
drop index customers_address;
create index customers_address on customers (organization_id, lower(email) text_pattern_ops) where deleted_at is null;
create index customers_name on customers (organization_id, lower(name) text_pattern_ops) where deleted_at is null and name is not null;
-- Search by the displayed end of a license key.
create index license_keys_display on license_keys (organization_id, lower(display_key));
