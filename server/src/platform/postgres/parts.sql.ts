import { sql } from 'kysely'
import { organizationIds, type Reach } from '../../kernel/actors.ts'

/** The right side of `organization_id = …`: any organization within reach. */
export const withinReach = (reach: Reach) => sql<string>`any(${organizationIds(reach)}::uuid[])`

/** A JSON column is written as text: the driver would turn a list into a PostgreSQL array. */
export const json = (value: unknown) => sql<never>`${JSON.stringify(value)}::jsonb`

/** The pattern of a text that contains another, whatever characters that one has. */
export const containing = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`

/** What a filter by metadata asks of a row: different keys mean both, several values of one key mean either. */
export const metadataHas = (metadata: Readonly<Record<string, readonly string[]>> = {}) =>
  Object.entries(metadata).map(([key, values]) => sql`metadata ->> ${key} = any(${values})`)
