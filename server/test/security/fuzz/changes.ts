import pg from 'pg'
import { urlOf } from '../../harness/database.ts'
import type { World } from '../../harness/world.ts'

/** Columns and tables that a refused request may change. Everything else must stay as it was. */
const declared = {
  /** When a credential was last used. The server writes these times every few seconds. */
  columns: ['last_used_at'],
  /** `table` or `table operation`. The server writes counts of earlier calls to `member_readiness` every ten seconds. */
  tables: new Set<string>(['member_readiness']),
}

/** Declares changes of single operations: the failure says that something was tried, and the attempt is recorded. */
const perOperation: Readonly<Record<string, readonly string[]>> = {
  // A wrong code counts as an attempt.
  'auth:verify_code': ['sign_in_codes update'],
  // The audit log names the person, because the session is known.
  'auth:renew_session': ['sign_in_codes update', 'second_factors update', 'audit_log insert'],
  'customer_portal:customer-session:authenticate': ['customer_session_codes update'],
  'auth:verify_second_factor': ['pending_sign_ins update', 'second_factors update', 'audit_log insert'],
  // The attempt to save a payment method is stored before the processor is called.
  'customer_portal:customers:add_payment_method': ['payments', 'audit_log insert'],
}

/**
 * Records every changed row by triggers, in the transaction of the change. A rolled-back change is therefore not
 * recorded. Read after each request, the record shows what that request has changed.
 */
export const watchChanges = async (world: World) => {
  const name = new URL((world.environmentVariables as Record<string, string>).BURSAR_DATABASE_URL!).pathname.slice(1)
  const client = new pg.Client({ connectionString: urlOf(name) })
  await client.connect()
  await client.query(`
    create schema fuzz;
    create unlogged table fuzz.changes (id bigint generated always as identity primary key, relation text not null, action text not null);
    create function fuzz.note() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
    begin
      if tg_op = 'UPDATE' and to_jsonb(old) - '{${declared.columns.join()}}'::text[] = to_jsonb(new) - '{${declared.columns.join()}}'::text[] then return null; end if;
      insert into fuzz.changes (relation, action) values (tg_table_name, lower(tg_op));
      return null;
    end $$;
    do $$
    declare one regclass;
    begin
      for one in select c.oid::regclass from pg_class c where c.relkind in ('r', 'p') and not c.relispartition
        and (c.relnamespace = 'public'::regnamespace or c.oid = 'graphile_worker._private_jobs'::regclass)
      loop
        execute format('create trigger zz_fuzz after insert or update or delete on %s for each row execute function fuzz.note()', one);
      end loop;
    end $$`)
  let last = '0'
  const read = async (): Promise<{ relation: string; action: string }[]> => {
    const { rows } = await client.query<{ id: string; relation: string; action: string }>({
      name: 'changes',
      text: 'select id, relation, action from fuzz.changes where id > $1 order by id',
      values: [last],
    })
    last = rows.at(-1)?.id ?? last
    return rows
  }
  return {
    /** Forgets the changes so far, such as those of the fuzzer itself. */
    skip: async (): Promise<void> => void (await read()),
    /** Returns the undeclared changes since the last call, each once. */
    since: async (operation_id: string): Promise<string[]> => {
      // The audit log has a partition per month.
      const found = (await read()).map(({ relation, action }) => `${relation.replace(/_\d{6}$/, '')} ${action}`)
      const allowed = perOperation[operation_id] ?? []
      return [...new Set(found)].filter((change) => {
        const [table = ''] = change.split(' ')
        return !declared.tables.has(table) && !declared.tables.has(change) && !allowed.includes(table) && !allowed.includes(change)
      })
    },
    close: () => client.end(),
  }
}
