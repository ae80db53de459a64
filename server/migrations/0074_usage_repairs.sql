-- A credit without rollover of another subscription applies to the usage of its own billing period only. This may be a part of the usage
-- period. Null: the credit applies to the whole usage period. Rows that exist already keep this rule.
alter table usage_credit_uses add column since timestamptz(3), add column until timestamptz(3);

-- A credit for lowered usage is taken back, on an order, if the money behind it is refunded or lost. `charged_amount` is what was taken
-- back. Negative if it was restored, because the refund failed. `amount` and `quantity` are 0.
alter table usage_settlements add column is_taken_back boolean not null default false;

-- Events whose children have a wrong depth, because an ancestor arrived after many descendants. A periodic task corrects the children in the
-- sequence of their times, and adds those that have children themselves. `after` is how far it has come.
create table usage_depth_changes (
  organization_id uuid not null references organizations (id),
  event_id uuid not null,
  after timestamptz not null default '-infinity',
  primary key (organization_id, event_id)
);
grant select, insert, update on usage_depth_changes to bursar_api;
grant select, insert, update, delete on usage_depth_changes to bursar_worker;
grant update (depth) on usage_events to bursar_worker;
