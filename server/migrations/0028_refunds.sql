-- Of an order that was paid with credit, all that is given back may be its tax.
alter table refunds drop constraint refunds_amount_check;
alter table refunds add check (amount >= 0), add check (amount + tax_amount > 0);

-- What a processor says is not to be tried again.
alter table payments add column decline_final boolean not null default false;

-- Open disputes are looked at again, also those that came before.
update disputes set due_at = now() where status in ('early_warning', 'needs_response', 'under_review') and due_at is null;
