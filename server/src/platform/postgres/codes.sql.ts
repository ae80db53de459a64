import { sql, type RawBuilder } from 'kysely'
import type { Tx } from './postgres.ts'

/** A mailbox that receives codes: of a user who signs in, or of a customer who opens the portal. */
export type Mailbox =
  | { readonly table: 'sign_in_codes'; readonly email: string }
  | { readonly table: 'customer_session_codes'; readonly organization_id: string; readonly email: string }

/** The origin of a code request or attempt. Browser and network are keyed digests, which show only whether two origins are equal. */
export interface CodeOrigin {
  /** Digest of the client's network. It differs for each mailbox, so that it cannot be compared across mailboxes. */
  readonly network: string
  /** The hashes under which the browser's cookie may be stored, newest pepper first. */
  readonly browsers: readonly string[]
  /** True if this browser has signed in with this mailbox before. */
  readonly recognised: boolean
}

export interface CodeLimits {
  readonly perNetwork: number
  readonly unrecognised: number
  readonly recognised: number
}

interface NewCode {
  readonly id: string
  readonly email: string
  readonly created_at: Date
  readonly expires_at: Date
}

const tenant = (mailbox: Mailbox, value: (organization_id: string) => RawBuilder<unknown>) =>
  mailbox.table === 'customer_session_codes' ? value(mailbox.organization_id) : sql``

const ofMailbox = (mailbox: Mailbox) => sql`${tenant(mailbox, (id) => sql`organization_id = ${id} and `)}lower(email) = ${mailbox.email.toLowerCase()}`

/** Locks the mailbox until the transaction ends, so that requests and attempts are counted one after another. */
export const lockMailbox = async (tx: Tx, mailbox: Mailbox): Promise<void> => {
  const name = ['bursar', mailbox.table, ...(mailbox.table === 'customer_session_codes' ? [mailbox.organization_id] : []), mailbox.email.toLowerCase()]
  await sql`select pg_advisory_xact_lock(hashtextextended(${name.join('.')}, 0))`.execute(tx.q)
}

/**
 * Adds a code request unless the limits of the last hour are reached. Existing codes are not changed. A recognised
 * browser uses only its own limit. Returns true if the request was added. Requires the mailbox lock.
 */
export const insertCode = async (tx: Tx, mailbox: Mailbox, code: NewCode, origin: CodeOrigin, tries: number, limits: CodeLimits): Promise<boolean> => {
  const { network, browsers, recognised } = origin
  const within = recognised
    ? sql`count(*) filter (where recognised) < ${limits.recognised}`
    : sql`count(*) filter (where not recognised and network = ${network}) < ${limits.perNetwork}
        and count(*) filter (where not recognised) < ${limits.unrecognised}`
  const { numAffectedRows } = await sql`
    insert into ${sql.table(mailbox.table)}
      (${tenant(mailbox, () => sql`organization_id, `)}id, email, created_at, expires_at, network, browser, recognised, tries_left, near_tries_left, far_tries_left)
    select ${tenant(mailbox, (id) => sql`${id}::uuid, `)}${code.id}::uuid, ${code.email}, ${code.created_at}::timestamptz, ${code.expires_at}::timestamptz,
      ${network}, ${browsers[0]}, ${recognised}::boolean, ${tries}::smallint, ${tries}::smallint, ${tries}::smallint
    from ${sql.table(mailbox.table)}
    where ${ofMailbox(mailbox)} and created_at > ${new Date(code.created_at.getTime() - 3_600_000)}
    having ${within}`.execute(tx.q)
  return numAffectedRows === 1n
}

/**
 * Counts one attempt on every valid code of the mailbox. Codes have three counters: for the browser that requested
 * them, for its network, and for all others. Attempts from elsewhere therefore never use up the attempts of that
 * browser. Returns the codes that still have attempts left and may be compared. Requires the mailbox lock.
 */
export const spendTries = async (tx: Tx, mailbox: Mailbox, origin: CodeOrigin, now: Date): Promise<{ id: string; hash: string | null }[]> => {
  const { rows } = await sql<{ id: string; hash: string | null }>`
    update ${sql.table(mailbox.table)} set ${counted(origin, -1)}
    where ${ofMailbox(mailbox)} and expires_at > ${now} and case ${standing(origin)}
      when 'own' then tries_left > 0 when 'near' then near_tries_left > 0 else far_tries_left > 0 end
    returning id, hash`.execute(tx.q)
  return rows
}

/** Takes back one counted attempt on each of these codes. Used if the code was correct, but its owner must choose a customer first. */
export const returnTries = async (tx: Tx, mailbox: Mailbox, origin: CodeOrigin, ids: readonly string[]): Promise<void> => {
  await sql`update ${sql.table(mailbox.table)} set ${counted(origin, 1)} where ${ofMailbox(mailbox)} and id = any(${ids}::uuid[])`.execute(tx.q)
}

/** Compares an origin with the origin of a stored code: `own` for the same browser, `near` for the same network, otherwise `far`. */
const standing = ({ browsers, network }: CodeOrigin) =>
  sql`case when browser = any(${browsers}::text[]) then 'own' when network = ${network} then 'near' else 'far' end`

const counted = (origin: CodeOrigin, step: 1 | -1) => {
  const one = (name: string) => sql`case when ${standing(origin)} = ${name} then ${step}::smallint else 0::smallint end`
  return sql`tries_left = tries_left + ${one('own')}, near_tries_left = near_tries_left + ${one('near')}, far_tries_left = far_tries_left + ${one('far')}`
}

/** Deletes a used code, and the other codes of the browser that used it. */
export const deleteUsedCodes = async (tx: Tx, mailbox: Mailbox, origin: CodeOrigin, id: string): Promise<void> => {
  await sql`
    delete from ${sql.table(mailbox.table)}
    where ${ofMailbox(mailbox)} and (id = ${id} or browser = any(${origin.browsers}::text[]))`.execute(tx.q)
}
