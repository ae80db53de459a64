import type { World } from './world.ts'

/** Returns a hash of the contents of every table. Omits tables that record when a credential was last used. */
export const digest = (world: World): Promise<Record<string, string>> =>
  world.database.owner(async (owner) => {
    const { rows } = await owner.query<{ name: string }>(
      `select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace and relname !~ 'tokens|sessions|budget' order by 1`,
    )
    const found: Record<string, string> = {}
    for (const { name } of rows) {
      const { rows: sums } = await owner.query<{ sum: string }>(`select coalesce(md5(string_agg(t::text, ',' order by t::text)), '') as sum from "${name}" t`)
      found[name] = sums[0]!.sum
    }
    return found
  })
