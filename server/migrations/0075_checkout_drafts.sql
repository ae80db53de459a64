-- What a buyer has typed into the form of a checkout and not submitted.

create table checkout_drafts (
  organization_id uuid not null references organizations (id),
  -- The id of the checkout.
  id uuid not null,
  modified_at timestamptz(3) not null,
  -- Encrypted. Null after the data of the customer was erased.
  fields_sealed text check (length(fields_sealed) <= 16384),
  primary key (organization_id, id),
  foreign key (organization_id, id) references checkouts (organization_id, id)
);
-- Not in the audit log: a draft changes nothing, and it is personal data.
grant select, insert, update, delete on checkout_drafts to bursar_api;
grant select, delete on checkout_drafts to bursar_worker;
