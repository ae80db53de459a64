-- Whoever buys first under an address is let into its portal, and has only typed it so far.
alter table customer_sessions add column unproved boolean not null default false;
