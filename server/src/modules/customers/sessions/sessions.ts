import { CustomerSessionCodeInvalidOrExpired, InvalidRequest, ResourceNotFound, Unauthorized, type CustomerSessionCreate, type Invalid } from '@bursar/contract'
import type { z } from 'zod'
import { phaseOf, within, type MemberPhase, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newCode, newToken, Secret, type TokenKind } from '../../../kernel/secrets.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { deleteUsedCodes, type Mailbox } from '../../../platform/postgres/codes.sql.ts'
import type { Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import {
  addCredential,
  codeBrowserOf,
  codeLife,
  credentialsIn,
  forgetSubjects,
  InvalidToken,
  keepCodeBrowser,
  matchCode,
  originOf,
  recogniseBrowser,
  requestMailedCode,
  resolve,
  takeSubject,
  type Caller,
} from '../../identity/index.ts'
import { findSeller, portalUrl, sendMail } from '../../organizations/index.ts'
import { languageOfCustomer } from '../records/language.ts'
import { findCustomers, lockCustomers } from '../records/customers.sql.ts'
import { type CustomerRow, type Marked } from '../records/customer-rows.sql.ts'
import { changeCustomer, withdrawEmailChange } from '../customers/customers.ts'
import { findCustomer } from '../records/customers.ts'
import { findMember, findOwnerOf } from '../records/members.sql.ts'
import type { MemberRow } from '../records/member-rows.sql.ts'
import {
  deleteExpired,
  deleteSession,
  deleteUnproved,
  findCode,
  findMatches,
  findSession,
  holderOf,
  insertSession,
  setCodeHash,
  type SessionRow,
} from './sessions.sql.ts'

const sessionLife = 1 * hours
const atOnce = 1000

export interface Opened {
  readonly session: SessionRow
  readonly token: Secret
}

/** Opens a portal session for a member, or for the customer itself if `member_id` is null. Stores only the hash of the token. */
export const openCustomerSession = async (
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

/**
 * Creates a session for the member that the seller names. If the seller names none, the phase decides. Before phase 2,
 * the session belongs to the customer itself. In phase 2, it belongs to the owner of an individual customer. For a team
 * in phase 2, a member is required.
 */
export const createCustomerSession = async (
  tx: Tx,
  scope: TenantScope,
  platform: Platform,
  body: z.output<typeof CustomerSessionCreate>,
): Promise<Opened & { customer: CustomerRow; code: Secret }> => {
  const customer = await chooseCustomer(tx, scope, body)
  const member = await chooseMember(tx, customer, phaseOf(scope, customer.organization_id), body)
  if (!member && (customer.type === 'team' || customer.buys_seats)) scope.notice?.(customer.organization_id, 'session_without_member')
  const whose = { organization_id: customer.organization_id, customer_id: customer.id, member_id: member?.id ?? null }
  const { session, token } = await openCustomerSession(tx, platform, whose, { return_url: body.return_url ?? null })
  return { session, token, customer, code: await issue(tx, platform, session, 'portal_code') }
}

type SessionRequest = z.output<typeof CustomerSessionCreate>

const chooseCustomer = async (tx: Tx, scope: TenantScope, body: SessionRequest): Promise<CustomerRow & Marked> => {
  const external = body.external_customer_id ?? body.customer_external_id
  if (!body.customer_id && !external)
    throw new InvalidRequest({ loc: ['body', 'customer_id'], msg: 'Give customer_id or external_customer_id.', type: 'missing' })
  const other = body.external_customer_id ? 'external_customer_id' : 'customer_external_id'
  const field = body.customer_id ? 'customer_id' : other
  try {
    const customer = await findCustomer(tx, scope, body.customer_id ? { id: body.customer_id } : { external_id: external! }, 'customers:manage')
    if (external && customer.external_id !== external)
      throw new InvalidRequest(problem(other, 'customer_id and external_customer_id belong to different customers. Give one of them.', external))
    return customer
  } catch (error) {
    if (!(error instanceof ResourceNotFound)) throw error
    throw new InvalidRequest(problem(field, 'There is no such customer.', body.customer_id ?? external))
  }
}

const chooseMember = async (
  tx: Tx,
  customer: CustomerRow,
  phase: MemberPhase,
  { member_id, external_member_id }: SessionRequest,
): Promise<MemberRow | undefined> => {
  if (member_id && external_member_id)
    throw new InvalidRequest(problem('external_member_id', 'Received member_id and external_member_id. Give only one of them.', external_member_id))
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
      msg: 'This customer is a team. Choose a member by member_id or external_member_id.',
      type: 'missing',
    })
  const owner = await findOwnerOf(tx, customer)
  // An existing customer always has an owner. Without one, the customer was deleted meanwhile.
  if (!owner) throw new InvalidRequest(problem('customer_id', 'There is no such customer.', customer.id))
  return owner
}

const problem = (field: string, msg: string, input: unknown): Invalid => ({ loc: ['body', field], msg, type: 'value_error', input })

/** Exchanges a portal code for its session. A code works once: it is deleted atomically, so only one concurrent request succeeds. */
export const exchange = async (tx: Tx, platform: Platform, code: string): Promise<Opened> => {
  const subject = await takeSubject(tx, platform.hasher, new Secret(code), 'portal_code')
  const session = subject?.organization_id ? await findSession(tx, subject.organization_id, subject.subject_id) : undefined
  if (!session) throw new CustomerSessionCodeInvalidOrExpired()
  const kind = kindOf(session)
  const token = await issue(tx, platform, session, kind)
  try {
    await resolve(credentialsIn(tx), { environment: platform.config.environment, hasher: platform.hasher, clock: tx.clock }, token, [kind])
  } catch (error) {
    if (error instanceof InvalidToken) throw new CustomerSessionCodeInvalidOrExpired()
    throw error
  }
  return { session, token }
}

/** Ends a session and deletes all its credentials. */
export const endCustomerSession = async (tx: Tx, organization_id: string, session_id: string): Promise<void> => {
  await forgetSubjects(tx, [session_id])
  await deleteSession(tx, organization_id, session_id)
}

/** Ends the customer's sessions whose address is not verified. Called when another person uses the address, who may be its owner. */
export const endUnproved = async (tx: Tx, customer: Pick<CustomerRow, 'organization_id' | 'id'>): Promise<void> =>
  forgetSubjects(tx, await deleteUnproved(tx, customer))

const mailboxOf = (organization_id: string, email: string): Mailbox => ({ table: 'customer_session_codes', organization_id, email })

/**
 * Requests a sign-in code. The response does not reveal whether the email address is known or rate limited. The mail job
 * decides whether mail is sent. Returns the cookie that binds the code to the requesting browser.
 */
export const requestCode = async (tx: Tx, platform: Platform, caller: Caller, { organization_id, email }: { organization_id: string; email: string }) => {
  const browser = codeBrowserOf(platform, caller)
  if (await findSeller(tx, { id: organization_id })) {
    const mailbox = mailboxOf(organization_id, email)
    const code_id = await requestMailedCode(tx, mailbox, originOf(platform, mailbox, caller, browser), email)
    if (code_id !== null) await enqueue(tx, 'mail.customer_session_code', { organization_id, code_id })
  }
  return keepCodeBrowser(platform, browser)
}

/** Creates a sign-in code, stores its hash and mails the code. Does nothing if no customer or member has the email address. */
export const mailCode = async (deps: Deps, { organization_id, code_id }: { organization_id: string; code_id: string }): Promise<void> => {
  const { db, transact, platform } = deps
  const request = await findCode(db, organization_id, code_id)
  const organization = request && (await findSeller(db, { id: organization_id }))
  if (!organization || request.expires_at <= platform.clock.wall()) return
  const scope = within(organization_id, 'portal', organization.member_phase)
  const [match] = await findMatches(db, scope, organization_id, request.email)
  if (!match) return
  const code = newCode()
  await transact((tx) => setCodeHash(tx, organization_id, code_id, platform.hasher.hash(bound(code_id, code))))
  const [customer] = await findCustomers(db, scope, { id: match.customer_id })
  await sendMail(deps, {
    to: match.email,
    seller: organization,
    customer_ids: [match.customer_id],
    language: languageOfCustomer(customer),
    view: { kind: 'customer_code', code: code.reveal(), minutes: codeLife / minutes, sign_in_url: portalUrl(platform, organization, '/sign-in') },
  })
}

export type Authenticated = { readonly opened: Opened; readonly recognised: string } | { readonly choices: readonly { id: string; name: string | null }[] }

/**
 * Exchanges a sign-in code for a session. Only a correct code reveals which customers have the email address. Returns
 * null if the code is wrong or expired. A wrong code counts as an attempt.
 */
export const authenticate = async (
  tx: Tx,
  platform: Platform,
  caller: Caller,
  wish: { organization_id: string; email: string; code: Secret; customer_id?: string | null | undefined },
): Promise<Authenticated | null> => {
  const { organization_id, email } = wish
  const mailbox = mailboxOf(organization_id, email)
  const origin = originOf(platform, mailbox, caller)
  const matched = await matchCode(tx, platform, mailbox, origin, (id) => bound(id, wish.code))
  if (!matched) return null
  const organization = await findSeller(tx, { id: organization_id })
  if (!organization) return null
  const scope = within(organization_id, 'portal', organization.member_phase)
  const matches = await findMatches(tx, scope, organization_id, email)
  if (matches.length === 0) return null
  if (matches.length > 1 && !wish.customer_id) {
    await matched.returnTry()
    return { choices: matches.map(({ customer_id, name }) => ({ id: customer_id, name })) }
  }
  const match = wish.customer_id ? matches.find(({ customer_id }) => customer_id === wish.customer_id) : matches[0]
  if (!match) throw new InvalidRequest(problem('customer_id', 'No customer with this id has this address.', wish.customer_id))
  await deleteUsedCodes(tx, mailbox, origin, matched.id)
  const [customer] = await lockCustomers(tx, scope, { id: match.customer_id })
  if (!customer) return null
  if (customer.email?.toLowerCase() === email.toLowerCase()) await changeCustomer(tx, scope, customer, { email_verified: true })
  await endUnproved(tx, customer)
  return { opened: await openCustomerSession(tx, platform, { organization_id, ...match }), recognised: recogniseBrowser(platform, mailbox, caller) }
}

/** Locks the customer of a portal session. Checks no permission of the organization, because the session itself authorizes access. */
export const holdOwn = async (tx: Tx, scope: TenantScope, id: string): Promise<Locked<CustomerRow>> => {
  const [customer] = await lockCustomers(tx, scope, { id })
  if (!customer) throw new Unauthorized('This session has ended.')
  return customer
}

/** Deletes expired sessions, codes and address changes. */
export const purge = async ({ transact, platform }: Deps): Promise<void> => {
  for (;;) {
    const ended = await transact(async (tx) => {
      const ids = await deleteExpired(tx, platform.clock.wall(), atOnce)
      await forgetSubjects(tx, ids)
      return ids.length
    })
    if (ended < atOnce) return
  }
}

/** Notifies the person whose session token leaked. Closes an open request to change the email address. */
export const mailLeak = async (deps: Deps, { organization_id, session_id }: { organization_id: string; session_id: string }): Promise<void> => {
  const { db, transact, platform } = deps
  const holder = await holderOf(db, organization_id, session_id)
  // The leaked session may have been used to request a change of the email address.
  if (holder) await transact((tx) => withdrawEmailChange(tx, { organization_id, id: holder.customer_id }))
  const seller = holder?.email ? await findSeller(db, { id: organization_id }) : undefined
  if (holder?.email && seller)
    await sendMail(deps, {
      to: holder.email,
      seller,
      customer_ids: [holder.customer_id],
      language: languageOfCustomer(holder),
      view: { kind: 'customer_session_leaked', portal_url: portalUrl(platform, seller, '/sign-in') },
    })
}

/** Returns the text to hash for a sign-in code. The text contains the request id, so the hash is valid for that request only. */
const bound = (id: string, code: Secret) => new Secret(`portal:${id}:${code.reveal()}`)
