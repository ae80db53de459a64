import { sql } from 'kysely'
import { lockRow } from '../../../platform/postgres/locks.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'

/** A mail that was sent or tried. `organization_id` is null for a mail of the deployment itself. */
export interface SentMail {
  readonly id: string
  readonly organization_id: string | null
  /** The kind of the mail, such as `receipt`. */
  readonly mail: string
  readonly address: string
  /** The order that the mail is about. Null for other mails. */
  readonly order_id: string | null
}

interface SentMailTable extends SentMail {
  readonly created_at: Date
  readonly customer_id: string | null
}

export type ReportKind = 'permanent' | 'transient' | 'complaint'

export interface MailReportRow {
  readonly id: string
  readonly organization_id: string | null
  readonly customer_id: string | null
  readonly created_at: Date
  readonly mail_id: string
  readonly mail: string
  readonly kind: ReportKind
  readonly address: string
  readonly diagnostic: string | null
  readonly cleared_at: Date | null
}

declare module '../../../platform/postgres/postgres.ts' {
  interface Tables {
    sent_mails: SentMailTable
    mail_reports: MailReportRow
  }
}

const ownedBy = (organization_id: string | null) =>
  organization_id === null ? sql<boolean>`organization_id is null` : sql<boolean>`organization_id = ${organization_id}`

export const insertSentMail = async (tx: Tx, row: SentMail): Promise<void> => {
  await tx.q
    .insertInto('sent_mails')
    .values({ ...row, customer_id: null, created_at: tx.clock.wall() })
    .execute()
}

/**
 * Locks the customers behind an address against their erasure, until the transaction ends. False if one of them was
 * erased. So an address is stored before the erasure, which then finds it, or not at all.
 */
export const holdRecipients = async (tx: Tx, organization_id: string, customer_ids: readonly string[]): Promise<boolean> => {
  const { rows } = await sql<{ forgotten_at: Date | null }>`
    select forgotten_at from customers where organization_id = ${organization_id} and id = any(${[...customer_ids]}::uuid[]) order by id for share`.execute(
    tx.q,
  )
  return rows.every(({ forgotten_at }) => forgotten_at === null)
}

/** Locks the mail, so that an erasure of its recipient waits, and then also finds the report. */
export const lockSentMail = (tx: Tx, id: string): Promise<Locked<SentMailTable> | undefined> =>
  lockRow(tx.q.selectFrom('sent_mails').selectAll().where('id', '=', id))

/** Inserts a report. Returns false if the mail already has a report of this kind. */
export const insertReport = async (tx: Tx, row: MailReportRow): Promise<boolean> => {
  const done = await tx.q
    .insertInto('mail_reports')
    .values(row)
    .onConflict((twin) => twin.columns(['mail_id', 'kind']).doNothing())
    .executeTakeFirst()
  return done.numInsertedOrUpdatedRows === 1n
}

/** Reports that suppress mails to an address. */
export interface Suppressing {
  /** The kinds that suppress this mail. */
  readonly kinds: readonly ReportKind[]
  /** Earlier reports do not suppress it. Null if there is no limit. */
  readonly since: Date | null
}

/** Returns the newest report that suppresses a mail of an organization, or of the deployment, to an address. */
export const findSuppression = async (
  db: Db,
  organization_id: string | null,
  address: string,
  { kinds, since }: Suppressing,
): Promise<Pick<MailReportRow, 'kind' | 'created_at'> | undefined> =>
  db.q
    .selectFrom('mail_reports')
    .select(['kind', 'created_at'])
    .where(ownedBy(organization_id))
    .where(sql<boolean>`lower(address) = lower(${address})`)
    .where('kind', '!=', 'transient')
    .where('cleared_at', 'is', null)
    .where(sql<boolean>`kind = any(${kinds}::text[])`)
    .$if(since !== null, (all) => all.where('created_at', '>', since!))
    .orderBy('created_at', 'desc')
    .limit(1)
    .executeTakeFirst()

export interface Suppressed {
  readonly organization: string | null
  readonly address: string
  readonly kind: ReportKind
  readonly mail: string
  readonly created_at: Date
  readonly diagnostic: string | null
}

/** Lists the newest suppressions of one organization, or of the whole deployment. */
export const listSuppressed = async (db: Db, slug: string | undefined, most: number): Promise<Suppressed[]> => {
  const { rows } = await sql<Suppressed>`
    select o.slug as organization, r.address, r.kind, r.mail, r.created_at, r.diagnostic
    from mail_reports r left join organizations o on o.id = r.organization_id
    where r.kind <> 'transient' and r.cleared_at is null and (${slug ?? null}::text is null or o.slug = ${slug ?? null})
    order by r.created_at desc, r.id limit ${most}`.execute(db.q)
  return rows
}

/** Lifts the suppression of an address, in one organization or in the whole deployment. Returns the number of reports. */
export const clearSuppression = async (tx: Tx, slug: string | undefined, address: string): Promise<number> => {
  const { numAffectedRows } = await sql`
    update mail_reports set cleared_at = ${tx.clock.wall()}
    where lower(address) = lower(${address}) and kind <> 'transient' and cleared_at is null
      and (${slug ?? null}::text is null or organization_id = (select id from organizations where slug = ${slug ?? null}))`.execute(tx.q)
  return Number(numAffectedRows ?? 0n)
}

/** Deletes mails and transient reports before one time, and the other reports before another. */
export const purgeMails = async (tx: Tx, before: { readonly mails: Date; readonly reports: Date }): Promise<void> => {
  await tx.q.deleteFrom('sent_mails').where('created_at', '<=', before.mails).execute()
  await tx.q.deleteFrom('mail_reports').where('kind', '=', 'transient').where('created_at', '<=', before.mails).execute()
  await tx.q.deleteFrom('mail_reports').where('created_at', '<=', before.reports).execute()
}
