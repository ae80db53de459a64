-- The sender address that the operator of the deployment allows an organization, and reports about mails that were not delivered or not wanted.

-- Null if mails of the organization have the sender address of the deployment. The check keeps line breaks and second addresses out of mail headers.
alter table organizations add column sender_address text
  check (length(sender_address) <= 254 and sender_address ~ '^[A-Za-z0-9_''+.-]+@([A-Za-z0-9][A-Za-z0-9-]*\.)+[A-Za-z]{2,}$');

-- Mails that a report may name, for 30 days. `organization_id` is null for mails of the deployment itself. `customer_id` is set when the
-- person behind the address is erased. Not in the audit log, because only workers write it.
create table sent_mails (
  id uuid primary key,
  organization_id uuid references organizations (id),
  customer_id uuid,
  created_at timestamptz(3) not null,
  mail text not null,
  address text not null
);
create index sent_mails_organization on sent_mails (organization_id, lower(address));
create index sent_mails_age on sent_mails (created_at);
grant select on sent_mails to bursar_api, bursar_worker;
grant insert, update, delete on sent_mails to bursar_worker;
-- Erases the person.
grant update on sent_mails to bursar_api;

-- A report: the address cannot be reached (`permanent`), this mail was not delivered (`transient`), or the recipient complained (`complaint`).
create table mail_reports (
  id uuid primary key,
  organization_id uuid references organizations (id),
  customer_id uuid,
  created_at timestamptz(3) not null,
  mail_id uuid not null,
  mail text not null,
  kind text not null check (kind in ('permanent', 'transient', 'complaint')),
  address text not null,
  diagnostic text check (length(diagnostic) <= 500),
  -- Set when the operator lifts the suppression.
  cleared_at timestamptz(3),
  -- One mail gets at most one report of each kind, so the holder of its token cannot fill the table.
  unique (mail_id, kind)
);
-- Finds the reports that suppress mails to an address.
create index mail_reports_suppressing on mail_reports (organization_id, lower(address)) where kind <> 'transient' and cleared_at is null;
create index mail_reports_organization on mail_reports (organization_id, created_at);
create index mail_reports_age on mail_reports (created_at);
grant select, insert, update on mail_reports to bursar_api, bursar_worker;
grant delete on mail_reports to bursar_worker;
call note_changes_of('mail_reports');
