import type { Client } from 'pg'

/**
 * Copies a row once for each row of `n`. `changes` maps columns to SQL expressions over `n` and `o`, the original row.
 * Triggers and foreign keys are not checked.
 */
export const copyRow = async (
  owner: Client,
  table: string,
  { organization_id, id }: { organization_id: string; id: string },
  n: string,
  changes: Readonly<Record<string, string>>,
): Promise<void> => {
  const { rows } = await owner.query<{ name: string }>(
    `select column_name as name from information_schema.columns where table_schema = 'public' and table_name = $1 and is_generated = 'NEVER'`,
    [table],
  )
  await owner.query(`set session_replication_role = replica`)
  await owner.query(
    `insert into ${table} (${rows.map(({ name }) => `"${name}"`).join()})
     select ${rows.map(({ name }) => changes[name] ?? `o."${name}"`).join()} from ${n}, ${table} o where o.organization_id = $1 and o.id = $2`,
    [organization_id, id],
  )
  await owner.query(`set session_replication_role = default`)
}
