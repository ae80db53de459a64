import { sql, type RawBuilder } from 'kysely'
import { organizationIds, type MemberPhase, type Reach } from '../../kernel/actors.ts'
import { isOneOf } from '../../platform/postgres/parts.sql.ts'

/** What somebody pays for and somebody has. Both are kept; which of them is shown as the customer is decided here alone. */
export interface Held {
  readonly buyer_customer_id: string
  /** Who has it as a customer of their own; null where it is a member of the buyer, or the buyer. */
  readonly holder_customer_id: string | null
}

/** The customer that such a row shows: whoever pays, once the member model is on; before that, whoever has it. */
export const shownCustomer = ({ buyer_customer_id, holder_customer_id }: Held, phase: MemberPhase): string =>
  phase === 'phase2' ? buyer_customer_id : (holder_customer_id ?? buyer_customer_id)

/** A list that was filtered by customers has found these: what was found by who holds it, the same filter will not find after the switch. */
export const noticeFiltered = (reach: Reach, rows: readonly (Held & { readonly organization_id: string })[]): void => {
  for (const { organization_id, holder_customer_id, buyer_customer_id } of rows)
    if (holder_customer_id !== null && holder_customer_id !== buyer_customer_id) reach.notice?.(organization_id, 'filtered_by_holder')
}

/**
 * The rows of a table that show one of these customers: a branch for each side of the member model that is within reach, so
 * that both use their index. Of one organization it is one branch: a list asks for each by itself.
 */
export const ofCustomers = (reach: Reach, ids: readonly string[], table: string): RawBuilder<boolean> => {
  const is = (name: keyof Held) => isOneOf(`${table}.${name}`, ids)
  const shown: Record<'enabled' | 'others', RawBuilder<unknown>> = {
    enabled: is('buyer_customer_id'),
    others: sql`(${is('holder_customer_id')} or (${sql.ref(`${table}.holder_customer_id`)} is null and ${is('buyer_customer_id')}))`,
  }
  const sides = Map.groupBy(organizationIds(reach), (id) => (reach.phases.get(id) === 'phase2' ? 'enabled' : 'others'))
  const branches = [...sides].map(([side, organizations]) => sql`(${isOneOf(`${table}.organization_id`, organizations)} and ${shown[side]})`)
  return branches.length === 0 ? sql<boolean>`false` : sql<boolean>`(${sql.join(branches, sql` or `)})`
}
