import type { MailKind } from '@bursar/views'
import { newId } from '../../../kernel/ids.ts'
import { withoutTokens } from '../../../kernel/secrets.ts'
import { readReport, type MailReport } from '../../../gateways/mail/reports.ts'
import { days, hours, later } from '../../../platform/clock.ts'
import { isAnonymous } from '../../../platform/personal.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import {
  findSuppression,
  holdRecipients,
  insertReport,
  insertSentMail,
  lockSentMail,
  purgeMails,
  type MailReportRow,
  type ReportKind,
  type SentMail,
} from './mail-reports.sql.ts'
import { mailToken, readMailToken } from './tokens.ts'

/** Mails that protect an account. A person who complained about other mails still needs them. */
const securityMails: ReadonlySet<MailKind> = new Set<MailKind>([
  'sign_in_code',
  'customer_code',
  'email_change',
  'email_changed',
  'customer_session_leaked',
  'token_leaked',
  'app_token_leaked',
  'client_secret_leaked',
  'app_allowed',
  'payment_account_changed',
])

/** Time after which a security mail is tried again at an address that could not be reached. The mailbox may exist by then. */
const triedAgainAfter = 1 * hours

/** Time for which a report about a mail is accepted. Mail servers give up after five days, and people complain within weeks. */
const mailsKept = 30 * days
/** Time for which a report suppresses mails. It limits how long the address of a person is stored who never returns. */
const reportsKept = 365 * days
const longestDiagnostic = 500

/** Returns the kind of the report because of which a mail must not be sent. Undefined if it may be sent. */
export const suppressionOf = async (db: Db, { organization_id, mail, address }: Omit<SentMail, 'id'>, now: Date): Promise<ReportKind | undefined> => {
  const protects = securityMails.has(mail as MailKind)
  const found = await findSuppression(
    db,
    organization_id,
    address,
    protects ? { kinds: ['permanent'], since: later(now, -triedAgainAfter) } : { kinds: ['permanent', 'complaint'], since: null },
  )
  return found?.kind
}

/** A mail that is being sent, and the customers whose erasure erases its address. A mail of the deployment itself has none. */
export interface OutgoingMail extends SentMail {
  readonly customer_ids: readonly string[]
}

/** Runs the work if no recipient of the mail was erased since the job has read the address. */
const unlessErased = async (tx: Tx, { organization_id, customer_ids }: OutgoingMail, work: () => Promise<unknown>): Promise<boolean> => {
  if (organization_id !== null && !(await holdRecipients(tx, organization_id, customer_ids))) return false
  await work()
  return true
}

/**
 * Stores a mail before it is sent, and returns the addresses that carry its token. If bounces do not return to Bursar, returns
 * undefined, and stores only mails about an order, which the timeline of the order lists. Returns `erased` if a recipient was erased,
 * so that the mail must not be sent.
 */
export const trackMail = async ({ transact, platform }: Pick<Deps, 'transact' | 'platform'>, mail: OutgoingMail) => {
  const { bounces } = platform.config.mail
  const { customer_ids: _, ...row } = mail
  if ((bounces !== undefined || mail.order_id !== null) && !(await transact((tx) => unlessErased(tx, mail, () => insertSentMail(tx, row))))) return 'erased'
  if (bounces === undefined) return undefined
  const token = mailToken(platform.hasher, mail.id)
  return { return_path: `${bounces.prefix}${token}@${bounces.domain}`, message_id: `${token}@${bounces.domain}` }
}

const newReport = (tx: Tx, { id: mail_id, organization_id, mail, address }: SentMail, kind: ReportKind, diagnostic: string | null): MailReportRow => ({
  id: newId(tx.clock.wall()),
  organization_id,
  customer_id: null,
  created_at: tx.clock.wall(),
  mail_id,
  mail,
  kind,
  address,
  diagnostic: diagnostic === null ? null : withoutTokens(diagnostic.replaceAll(/[\p{Cc}\s]+/gu, ' ')).slice(0, longestDiagnostic),
  cleared_at: null,
})

/** Records that the mail server rejected the recipient of a mail for good. Stores nothing about a person who was erased meanwhile. */
export const recordRejection = (tx: Tx, mail: OutgoingMail, diagnostic: string): Promise<boolean> =>
  unlessErased(tx, mail, () => insertReport(tx, newReport(tx, mail, 'permanent', diagnostic)))

/** The result of a report: recorded, or the reason why it was ignored. */
export type Received = { readonly kind: ReportKind; readonly mail_id: string } | { readonly ignored: string }

/** Records the report in a raw message. Ignores a message that is no report, or that exceeds the limits of the parser. */
export const receiveReport = async ({ transact, platform }: Pick<Deps, 'transact' | 'platform'>, raw: Uint8Array): Promise<Received> => {
  const report = await readReport(raw).catch(() => undefined)
  if (!report) return { ignored: 'it is no report of a failure (RFC 3464) or of a complaint (RFC 5965)' }
  return transact((tx) => recordReport(tx, platform, report))
}

/**
 * Records a report about the mail whose token it contains. Only the mail server of the recipient, and the recipient, know the token.
 * Ignores reports without a valid token. A mail gets at most one report of each kind.
 */
const recordReport = async (tx: Tx, { hasher }: Pick<Platform, 'hasher'>, { kind, diagnostic, mentions }: MailReport): Promise<Received> => {
  const id = mentions.map((text) => readMailToken(hasher, text)).find((found) => found !== undefined)
  if (id === undefined) return { ignored: 'it contains no valid token of a mail' }
  const mail = await lockSentMail(tx, id)
  if (!mail) return { ignored: 'the mail is older than 30 days' }
  if (isAnonymous(mail.address)) return { ignored: 'its recipient was erased' }
  const isNew = await insertReport(tx, newReport(tx, mail, kind, diagnostic))
  return isNew ? { kind, mail_id: id } : { ignored: 'the same report was recorded before' }
}

/** Deletes mails and reports that are no longer needed. */
export const purge = ({ transact }: Deps): Promise<void> =>
  transact((tx) => purgeMails(tx, { mails: later(tx.clock.wall(), -mailsKept), reports: later(tx.clock.wall(), -reportsKept) }))
