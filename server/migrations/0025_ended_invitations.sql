-- Links to seats that open nothing any more: whoever still has one is told what became of it. Only its hash was ever kept.
create table ended_invitations (
  organization_id uuid not null,
  seat_id uuid not null,
  hash text not null,
  ended text not null check (ended in ('claimed', 'expired', 'revoked')),
  ended_at timestamptz(3) not null,
  primary key (organization_id, seat_id, hash),
  foreign key (organization_id, seat_id) references seats (organization_id, id)
);
create unique index ended_invitations_hash on ended_invitations (hash);
create index ended_invitations_age on ended_invitations (ended_at);
grant select, insert on ended_invitations to bursar_api;
grant select, insert, delete on ended_invitations to bursar_worker;
