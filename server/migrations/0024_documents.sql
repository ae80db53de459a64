-- Who sells, as it stands on invoices.
create table seller_identities (
  organization_id uuid not null references organizations (id),
  modified_at timestamptz(3) not null,
  legal_name text not null,
  address jsonb not null,
  tax_id text,
  email text,
  footer text,
  primary key (organization_id)
);
grant select, insert, update on seller_identities to bursar_api;
grant select on seller_identities to bursar_worker;

-- A paper about an order. What it tells is written down when it is first asked for, and stays: of what can change later,
-- only who is billed and what was given back is taken over. The file is another matter, and may be behind.
create table documents (
  organization_id uuid not null references organizations (id),
  id uuid not null,
  created_at timestamptz(3) not null,
  modified_at timestamptz(3),
  kind text not null check (kind in ('invoice', 'receipt', 'credit_note')),
  order_id uuid not null,
  refund_id uuid,
  facts jsonb not null,
  -- Of the facts that the file was made of, and where it lies; null until there is one.
  checksum text,
  object_key text,
  primary key (organization_id, id),
  foreign key (organization_id, order_id) references orders (organization_id, id),
  foreign key (organization_id, refund_id) references refunds (organization_id, id),
  check ((kind = 'credit_note') = (refund_id is not null)),
  check ((checksum is null) = (object_key is null))
);
create unique index documents_of_order on documents (organization_id, order_id, kind) where refund_id is null;
create unique index documents_of_refund on documents (organization_id, refund_id) where refund_id is not null;
create index documents_order on documents (organization_id, order_id);
create index documents_refund on documents (organization_id, refund_id);
grant select, insert, update on documents to bursar_api, bursar_worker;

call note_changes_of('seller_identities', 'documents');

-- There is an invoice to fetch, of what the order says now.
alter table orders add column is_invoice_generated boolean not null default false;

-- A receipt is counted with its invoice: whatever was charged for has both.
update orders set receipt_number = 'RCPT-' || substring(invoice_number from position('-' in invoice_number) + 1)
where invoice_number is not null and receipt_number is null and due_amount > carried_amount;
