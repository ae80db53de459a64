import { CustomerSessionCodeInvalidOrExpired, InvalidRequest, ResourceNotFound, Unauthorized, type CustomerSessionCreate, type Invalid } from '@bursar/contract'
import type { z } from 'zod'
import { phaseOf, within, type MemberPhase, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newCode, newToken, sameText, Secret, type TokenKind } from '../../../kernel/secrets.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { replaceCode } from '../../../platform/postgres/codes.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { addCredential, forgetSubjects, InvalidToken, resolve, takeSubject } from '../../identity/index.ts'
import { findSeller } from '../../organizations/index.ts'
import { lockCustomers, type CustomerRow, type Marked } from '../customers/customers.sql.ts'
import { change, find as findCustomer, withdrawEmailChange } from '../customers/customers.ts'
import { findMember, findOwner, type MemberRow } from '../members/members.sql.ts'
import {
  deleteCode,
  deleteExpired,
  deleteSession,
  deleteUnproved,
  findCode,
  findMatches,
  findSession,
  holderOf,
  insertSession,
  returnTry,
  setCodeHash,
  spendTry,
  type SessionRow,
} from './sessions.sql.ts'

const sessionLife = 1 * hours
const codeLife = 15 * minutes
const tries = 5
const codesPerHour = 10
const atOnce = 1000

export interface Opened {
  readonly session: SessionRow
  readonly token: Secret
}

/** Opens a session for one member, or for the customer itself where there is no member model. Only the secret's hash is kept. */
export const open = async (
  tx: Tx,
  platform: Platform,
  whose: Pick<SessionRow, 'organization_id' | 'customer_id' | 'member_id'>,
  { return_url = null, unproved = false }: Partial<Pick<SessionRow, 'return_url' | 'unproved'>> = {},
): Promise<Opened> => {
  const wall = tx.clock.wall()
  const { organization_id, customer_id, member_id } = whose
  const session: SessionRow = {
    organization_id,
    id: newId(wall),
    customer_id,
    member_id,
    created_at: wall,
    expires_at: later(wall, sessionLife),
    return_url,
    unproved,
  }
  await insertSession(tx, session)
  return { session, token: await issue(tx, platform, session, kindOf(session)) }
}

const kindOf = ({ member_id }: SessionRow): TokenKind => (member_id === null ? 'customer_session' : 'member_session')

const issue = async (tx: Tx, platform: Platform, session: SessionRow, kind: TokenKind): Promise<Secret> => {
  const secret = newToken(kind, platform.config.environment)
  await addCredential(tx, platform.hasher, secret, { kind, subject_id: session.id, organization_id: session.organization_id })
  return secret
}

/** A session for whom the merchant names: a member of the customer, or where none is named, the one person it can only mean. */
export const create = async (
  tx: Tx,
  reach: Reach,
  platform: Platform,
  body: z.output<typeof CustomerSessionCreate>,
): Promise<Opened & { customer: CustomerRow; code: Secret }> => {
  const customer = await chooseCustomer(tx, reach, body)
  const member = await chooseMember(tx, customer, phaseOf(reach, customer.organization_id), body)
  if (!member && (customer.type === 'team' || customer.buys_seats)) reach.notice?.(customer.organization_id, 'session_without_member')
  const whose = { organization_id: customer.organization_id, customer_id: customer.id, member_id: member?.id ?? null }
  const { session, token } = await open(tx, platform, whose, { return_url: body.return_url ?? null })
  return { session, token, customer, code: await issue(tx, platform, session, 'portal_code') }
}

type Wish = z.output<typeof CustomerSessionCreate>

const chooseCustomer = async (tx: Tx, reach: Reach, body: Wish): Promise<CustomerRow & Marked> => {
  const external = body.external_customer_id ?? body.customer_external_id
  if (!body.customer_id && !external)
    throw new InvalidRequest({ loc: ['body', 'customer_id'], msg: 'Say whose session it is: give customer_id or external_customer_id.', type: 'missing' })
  const other = body.external_customer_id ? 'external_customer_id' : 'customer_external_id'
  const field = body.customer_id ? 'customer_id' : other
  try {
    const customer = await findCustomer(tx, reach, body.customer_id ? { id: body.customer_id } : { external_id: external! }, 'customers:manage')
    if (external && customer.external_id !== external)
      throw new InvalidRequest(problem(other, 'This is not the external id of the customer that customer_id names: give one of them.', external))
    return customer
  } catch (error) {
    if (!(error instanceof ResourceNotFound)) throw error
    throw new InvalidRequest(problem(field, 'There is no such customer.', body.customer_id ?? external))
  }
}

const chooseMember = async (tx: Tx, customer: CustomerRow, phase: MemberPhase, { member_id, external_member_id }: Wish): Promise<MemberRow | undefined> => {
  if (member_id && external_member_id)
    throw new InvalidRequest(problem('external_member_id', 'Name the member once: by member_id or by external_member_id, not both.', external_member_id))
  const naming = member_id ? { id: member_id } : external_member_id ? { external_id: external_member_id } : undefined
  if (naming) {
    const member = await findMember(tx, customer, naming)
    if (member) return member
    throw new InvalidRequest(problem(member_id ? 'member_id' : 'external_member_id', 'This customer has no such member.', member_id ?? external_member_id))
  }
  if (phase !== 'phase2') return undefined
  if (customer.type === 'team')
    throw new InvalidRequest({
      loc: ['body', 'member_id'],
      msg: 'This customer is a team: say which member the session is for, by member_id or external_member_id.',
      type: 'missing',
    })
  const owner = await findOwner(tx, customer)
  // Gone while we looked: a living customer has an owner.
  if (!owner) throw new InvalidRequest(problem('customer_id', 'There is no such customer.', customer.id))
  return owner
}

const problem = (field: string, msg: string, input: unknown): Invalid => ({ loc: ['body', field], msg, type: 'value_error', input })

/** The code of a portal address opens its session once: taking it decides between two at once. */
export const exchange = async (tx: Tx, platform: Platform, code: string): Promise<Opened> => {
  const subject = await takeSubject(tx, platform.hasher, new Secret(code), 'portal_code')
  const session = subject?.organization_id ? await findSession(tx, subject.organization_id, subject.subject_id) : undefined
  if (!session) throw new CustomerSessionCodeInvalidOrExpired()
  const kind = kindOf(session)
  const token = await issue(tx, platform, session, kind)
  try {
    await resolve(tx, { environment: platform.config.environment, hasher: platform.hasher, clock: tx.clock }, token, [kind])
  } catch (error) {
    if (error instanceof InvalidToken) throw new CustomerSessionCodeInvalidOrExpired()
    throw error
  }
  return { session, token }
}

/** Ends a session with every secret that opens it. */
export const end = async (tx: Tx, organization_id: string, session_id: string): Promise<void> => {
  await forgetSubjects(tx, [session_id])
  await deleteSession(tx, organization_id, session_id)
}

/** Whoever has only typed an address sees no more of its owner as soon as anybody else comes with it: that may be its owner. */
export const endUnproved = async (tx: Tx, customer: Pick<CustomerRow, 'organization_id' | 'id'>): Promise<void> =>
  forgetSubjects(tx, await deleteUnproved(tx, customer))

/** Asks for a code. What happens is the same for every address; whether mail goes out is decided later. */
export const requestCode = async (tx: Tx, organization_id: string, email: string): Promise<void> => {
  if (!(await findSeller(tx, { id: organization_id }))) return
  const wall = tx.clock.wall()
  const code = { organization_id, id: newId(wall), email, created_at: wall, expires_at: later(wall, codeLife), tries_left: tries }
  // Ten codes an hour, five tries each: nobody's mailbox is flooded, and nobody guesses a code that way.
  if (await replaceCode(tx, 'customer_session_codes', code, codesPerHour))
    await enqueue(tx, 'mail.customer_session_code', { organization_id, code_id: code.id })
}

/** Makes the code, keeps its hash, and mails it to the address as we know it, if anyone here has it. */
export const mailCode = async (
  { db, transact, gateways, platform }: Means,
  { organization_id, code_id }: { organization_id: string; code_id: string },
): Promise<void> => {
  const request = await findCode(db, organization_id, code_id)
  const organization = request && (await findSeller(db, { id: organization_id }))
  if (!organization || request.expires_at <= platform.clock.wall()) return
  const [match] = await findMatches(db, within(organization_id, 'portal', organization.member_phase), organization_id, request.email)
  if (!match) return
  const code = newCode()
  await transact((tx) => setCodeHash(tx, organization_id, code_id, platform.hasher.hash(bound(code_id, code))))
  await gateways.mail.send({
    to: match.email,
    subject: `Your code for ${organization.name}`,
    text: `${code.reveal()} is your code to open your account with ${organization.name}.\n\nIt works once, for 15 minutes. If you did not ask for it, you can ignore this message.`,
  })
}

export type Authenticated = { readonly opened: Opened } | { readonly choices: readonly { id: string; name: string | null }[] }

/**
 * Trades a code for a session. Each attempt costs one of five tries before the code is looked at; only who has proved
 * to own the address learns which customers it belongs to. Null: refused, and the try is spent.
 */
export const authenticate = async (
  tx: Tx,
  platform: Platform,
  wish: { organization_id: string; email: string; code: Secret; customer_id?: string | null | undefined },
): Promise<Authenticated | null> => {
  const { organization_id, email } = wish
  const request = await spendTry(tx, organization_id, email, tx.clock.wall())
  if (!request || !platform.hasher.candidates(bound(request.id, wish.code)).some((hash) => sameText(hash, request.hash ?? ''))) return null
  const organization = await findSeller(tx, { id: organization_id })
  if (!organization) return null
  const reach = within(organization_id, 'portal', organization.member_phase)
  const matches = await findMatches(tx, reach, organization_id, email)
  if (matches.length === 0) return null
  if (matches.length > 1 && !wish.customer_id) {
    await returnTry(tx, organization_id, request.id)
    return { choices: matches.map(({ customer_id, name }) => ({ id: customer_id, name })) }
  }
  const match = wish.customer_id ? matches.find(({ customer_id }) => customer_id === wish.customer_id) : matches[0]
  if (!match) throw new InvalidRequest(problem('customer_id', 'This address does not belong to such a customer.', wish.customer_id))
  await deleteCode(tx, organization_id, request.id)
  const [customer] = await lockCustomers(tx, reach, { id: match.customer_id })
  if (!customer) return null
  if (customer.email?.toLowerCase() === email.toLowerCase()) await change(tx, reach, customer, { email_verified: true })
  await endUnproved(tx, customer)
  return { opened: await open(tx, platform, { organization_id, ...match }) }
}

/** The customer of a portal session, held. It needs no permission of the organization's: it is its own. */
export const holdOwn = async (tx: Tx, reach: Reach, id: string): Promise<Locked<CustomerRow>> => {
  const [customer] = await lockCustomers(tx, reach, { id })
  if (!customer) throw new Unauthorized('This session has ended.')
  return customer
}

/** Removes sessions, codes and wishes that have run out, so that nothing expired is kept. */
export const purge = async ({ transact, platform }: Means): Promise<void> => {
  for (;;) {
    const ended = await transact(async (tx) => {
      const ids = await deleteExpired(tx, platform.clock.wall(), atOnce)
      await forgetSubjects(tx, ids)
      return ids.length
    })
    if (ended < atOnce) return
  }
}

/** Whoever holds the session is told that it leaked and has ended; what was asked for with it is withdrawn. */
export const mailLeak = async (
  { db, transact, gateways }: Means,
  { organization_id, session_id }: { organization_id: string; session_id: string },
): Promise<void> => {
  const holder = await holderOf(db, organization_id, session_id)
  // Whoever had the session may have asked for another address with it.
  if (holder) await transact((tx) => withdrawEmailChange(tx, { organization_id, id: holder.customer_id }))
  if (holder?.email)
    await gateways.mail.send({
      to: holder.email,
      subject: `Your session with ${holder.organization_name} was ended`,
      text: `A link or token that opens your account with ${holder.organization_name} was found in a public place, and has been ended.\n\nNothing else has changed. Sign in again when you need to.`,
    })
}

/** The code counts only together with the request it was made for. */
const bound = (id: string, code: Secret) => new Secret(`portal:${id}:${code.reveal()}`)
