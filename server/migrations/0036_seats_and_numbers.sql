-- The list of all seats of an organization: its order, its total, and the sums of its purchases.
create index seats_created on seats (organization_id, created_at, id);
create trigger seats_come after insert on seats referencing new table as changed for each statement execute function count_rows('seats');
insert into collection_deltas select organization_id, 'seats', count(*) from seats group by 1;

-- Sums of bought and of taken seats are read from these indexes alone. Revoked seats and purchases without seats are not in them.
create index seats_taken on seats (organization_id, subscription_id, order_id) include (status, invitation_expires_at, clock_id) where status <> 'revoked';
create index subscriptions_seats on subscriptions (organization_id, id) include (seats, status, ended_at) where seats is not null;
create index orders_seats on orders (organization_id, id) include (seats, status, benefits_revoked_at) where seats is not null and subscription_id is null;

-- When an order gets its invoice number. Organizations that exist keep `payment`; the server creates new ones with `creation`.
alter table organizations add column order_settings jsonb not null default '{"invoice_number_at": "payment"}'
  check (order_settings ->> 'invoice_number_at' in ('creation', 'payment'));
-- An order that was numbered at its creation keeps the number when it is voided, or becomes a draft again after a failed payment.
alter table orders drop constraint orders_check4;
