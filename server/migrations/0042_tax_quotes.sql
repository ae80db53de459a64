-- A seller may let the tax service of the deployment quote its taxes.
alter table tax_settings drop constraint tax_settings_provider_check;
alter table tax_settings add constraint tax_settings_provider_check check (provider in ('none', 'rates', 'service'));

-- The quote of a tax service that an order used: the question and the answer, as they were when the order was created.
create table tax_quotes (
  organization_id uuid not null,
  id uuid not null,
  created_at timestamptz(3) not null,
  customer_id uuid not null,
  -- The id of the quote at the tax service.
  service_quote_id text not null,
  fingerprint text not null,
  expires_at timestamptz(3) not null,
  behavior text not null check (behavior in ('inclusive', 'exclusive')),
  address jsonb,
  tax_id text,
  tax_id_format text,
  lines jsonb not null check (jsonb_typeof(lines) = 'array'),
  primary key (organization_id, id),
  foreign key (organization_id, customer_id) references customers (organization_id, id),
  check ((tax_id is null) = (tax_id_format is null))
);
create index tax_quotes_customer on tax_quotes (organization_id, customer_id);
grant select, insert on tax_quotes to bursar_api, bursar_worker;

-- Null if the tax was not quoted by a tax service.
alter table orders add column tax_quote_id uuid;
create unique index orders_tax_quote on orders (organization_id, tax_quote_id) where tax_quote_id is not null;
alter table orders add foreign key (organization_id, tax_quote_id) references tax_quotes (organization_id, id);

-- The taxes of an order never change. The grants protect them from the serving roles, and these triggers from the owner.
create function refuse_tax_change() returns trigger language plpgsql as $$
begin
  raise exception 'the taxes of an order never change: % of % is refused', lower(tg_op), tg_table_name using errcode = 'insufficient_privilege';
end
$$;
create trigger tax_quotes_stay before update or delete or truncate on tax_quotes for each statement execute function refuse_tax_change();
create trigger order_taxes_stay before update or delete or truncate on order_taxes for each statement execute function refuse_tax_change();
create trigger orders_tax_quote_stays before update of tax_quote_id on orders
  for each row when (old.tax_quote_id is distinct from new.tax_quote_id) execute function refuse_tax_change();
