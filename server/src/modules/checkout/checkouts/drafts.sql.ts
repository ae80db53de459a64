import { sql } from 'kysely'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { CheckoutRow } from './checkouts.sql.ts'
import { ofSecret, type PresentedSecret } from './loading.sql.ts'

interface DraftRow {
  organization_id: string
  /** The id of the checkout. */
  id: string
  modified_at: Date
  fields_sealed: string | null
  /** The keyed hash of the address in the draft, by which the erasure of the person finds it. */
  email_hash: string | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    checkout_drafts: DraftRow
  }
}

/** The columns of a checkout that decide whether its draft can be read or written. */
export type DraftedCheckout = Pick<CheckoutRow, 'organization_id' | 'id' | 'status' | 'expires_at'> & {
  /** The time of the customer's test clock, or null if the customer has none. */
  readonly test_time: Date | null
}
export type Key = Pick<CheckoutRow, 'organization_id' | 'id'>

const drafted = sql`c.organization_id, c.id, c.status, c.expires_at,
  (select t.now_at from customers u join test_clocks t on t.organization_id = u.organization_id and t.id = u.clock_id
    where u.organization_id = c.organization_id and u.id = c.customer_id) as test_time`

/** Finds the checkout with this client secret, and its draft. */
export const findDraftBySecret = async (
  db: Db,
  secret: PresentedSecret,
): Promise<(DraftedCheckout & Partial<Pick<DraftRow, 'fields_sealed' | 'modified_at'>>) | undefined> => {
  const { rows } = await sql<DraftedCheckout & Pick<DraftRow, 'fields_sealed' | 'modified_at'>>`
    select ${drafted}, d.fields_sealed, d.modified_at
    from (select c.* from ${ofSecret(secret)}) c left join checkout_drafts d on d.organization_id = c.organization_id and d.id = c.id`.execute(db.q)
  return rows[0]
}

/**
 * Locks the checkout with this client secret against a change of its status, so that no draft is stored for a checkout
 * whose draft was just deleted. Fails immediately if another transaction changes the checkout. Drafts do not exclude each other.
 */
export const holdCheckoutBySecret = async (tx: Tx, secret: PresentedSecret): Promise<DraftedCheckout | undefined> => {
  const { rows } = await sql<DraftedCheckout>`select ${drafted} from ${ofSecret(secret)} for key share of c nowait`.execute(tx.q)
  return rows[0]
}

export const saveDraft = async (tx: Tx, draft: DraftRow): Promise<void> => {
  const { fields_sealed, email_hash, modified_at } = draft
  await tx.q
    .insertInto('checkout_drafts')
    .values(draft)
    .onConflict((conflict) => conflict.columns(['organization_id', 'id']).doUpdateSet({ fields_sealed, email_hash, modified_at }))
    .execute()
}

export const findDraft = (db: Db, { organization_id, id }: Key): Promise<DraftRow | undefined> =>
  db.q.selectFrom('checkout_drafts').selectAll().where('organization_id', '=', organization_id).where('id', '=', id).executeTakeFirst()

/** Deletes the draft of a checkout, if there is one. */
export const deleteDraft = async (tx: Tx, { organization_id, id }: Key): Promise<void> => {
  await tx.q.deleteFrom('checkout_drafts').where('organization_id', '=', organization_id).where('id', '=', id).execute()
}
