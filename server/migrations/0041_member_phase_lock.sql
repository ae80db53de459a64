-- Locks the member phase of an organization in share mode until the transaction ends, and returns the phase. Each
-- statement of a volatile function has its own snapshot. The second one sees a phase that was committed while the first
-- one waited for the lock.
create function hold_member_phase(organization uuid) returns text language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('member phase ' || organization, 0));
  return (select member_phase from organizations where id = organization);
end
$$;
revoke all on function hold_member_phase(uuid) from public;
grant execute on function hold_member_phase(uuid) to bursar_api, bursar_worker;
