-- Finds the cards that expire in a month, so that their holders are reminded.
create index payment_methods_expiry on payment_methods ((method_metadata ->> 'exp_year'), (method_metadata ->> 'exp_month'), organization_id, id)
  where deleted_at is null and type = 'card';
