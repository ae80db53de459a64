import {
  accountLimits,
  AddressNotProved,
  EmailUpdateInvalidOrExpired,
  InvalidRequest,
  NotPermitted,
  TooManyRequests,
  Unauthorized,
  type CustomerPortalCustomer,
  type CustomerPortalCustomerUpdate,
  type MemberRole,
  type Organization,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type PortalActor, type TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { hours, later } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps, Platform } from '../../handlers.ts'
import { addCredential, dropCredentials, findSubject, takeSubject } from '../../identity/index.ts'
import { languageOfCustomer } from '../records/language.ts'
import { findOrganization, findSeller, portalUrl, sendMail } from '../../organizations/index.ts'
import { findCustomers, findTaken, isMethodOf, lockCustomers } from '../records/customers.sql.ts'
import type { CustomerRow, Marked } from '../records/customer-rows.sql.ts'
import { changeCustomer, changeBilling, presentCustomer, withdrawEmailChange } from '../customers/customers.ts'
import { findMember, findMemberByEmail, findOwnerOf } from '../records/members.sql.ts'
import type { MemberRow } from '../records/member-rows.sql.ts'
import { requireMember as findMemberOf, addMember, deleteMember, updateMember } from '../members/members.ts'
import { findSession } from '../sessions/sessions.sql.ts'
import { holdOwn, openCustomerSession } from '../sessions/sessions.ts'
import { countWishes, findChange, insertChange, markDone } from '../records/portal.sql.ts'
import { allow, allows } from './roles.ts'

const linkLife = 1 * hours
const wishesPerHour = accountLimits.email_changes_per_customer_and_hour

const mayChange = (settings: Organization['customer_portal_settings']) => settings.customer?.allow_email_change === true

/** Returns the customer of a portal session. Checks no permission of the organization, because the session itself authorizes access. */
export const findOwn = async (db: Db, scope: TenantScope, { customer_id }: PortalActor): Promise<CustomerRow & Marked> => {
  const [customer] = await findCustomers(db, scope, { id: customer_id })
  if (!customer) throw new Unauthorized('This session has ended.')
  return customer
}

/** Returns the name and address of the person behind a session, and whether the customer has a team. */
export const findPerson = async (db: Db, scope: TenantScope, actor: PortalActor): Promise<{ name: string | null; email: string; has_team: boolean }> => {
  const customer = await findOwn(db, scope, actor)
  const member = actor.member_id === null ? undefined : await findMember(db, customer, { id: actor.member_id })
  const has_team = customer.type === 'team' || customer.buys_seats
  if (member) return { name: member.name, email: member.email, has_team }
  const address = actor.member_id === null ? (customer.email ?? (await findOwnerOf(db, customer))?.email) : undefined
  if (address === undefined) throw new Unauthorized('This session has ended.')
  return { name: customer.name, email: address, has_team }
}

/** Presents the customer to a portal user. A plain member sees which customer it is, but no billing details or addresses. */
export const presentOwn = (row: CustomerRow, role: PortalActor['role']): CustomerPortalCustomer => {
  const { id, created_at, modified_at, email, email_verified, name, billing_name, billing_address, tax_id, default_payment_method_id, type, locale } =
    presentCustomer(row)
  const seen = { id, created_at, modified_at, name, type, locale, oauth_accounts: {} }
  return allows(role, 'billing:read')
    ? { ...seen, email, email_verified, billing_name, billing_address, tax_id, default_payment_method_id }
    : { ...seen, email: null, email_verified: false, billing_name: null, billing_address: null, tax_id: null, default_payment_method_id: null }
}

/** Updates the billing details of the customer. Needs the portal permission `billing:manage`. */
export const updateOwn = async (tx: Tx, scope: TenantScope, actor: PortalActor, body: z.output<typeof CustomerPortalCustomerUpdate>): Promise<CustomerRow> => {
  const customer = await holdStanding(tx, scope, actor, 'billing:manage')
  const { changes, problems } = changeBilling(customer, body)
  if (body.billing_name !== undefined) changes.billing_name = body.billing_name
  if (body.default_payment_method_id !== undefined) {
    // The default payment method cannot be set to null. To have no default, the customer must delete the payment method.
    if (body.default_payment_method_id !== null && (await isMethodOf(tx, customer, body.default_payment_method_id)))
      changes.default_payment_method_id = body.default_payment_method_id
    else
      problems.push({
        loc: ['body', 'default_payment_method_id'],
        msg: 'There is no such payment method.',
        type: 'value_error',
        input: body.default_payment_method_id,
      })
  }
  if (problems.length > 0) throw new InvalidRequest(problems)
  // A job retries open payments immediately with the new default payment method.
  if (changes.default_payment_method_id && changes.default_payment_method_id !== customer.default_payment_method_id)
    await enqueue(tx, 'billing.method_changed', { organization_id: customer.organization_id, customer_id: customer.id })
  return changeCustomer(tx, scope, customer, changes)
}

/**
 * Locks the customer, then reads the actor's role and checks the permission. The order matters: the role may have
 * changed while this transaction waited for the lock.
 */
export const holdStanding = async (
  tx: Tx,
  scope: TenantScope,
  actor: PortalActor,
  action: Parameters<typeof allow>[1],
): Promise<Locked<CustomerRow> & { standing: PortalActor['role'] }> => {
  const customer = await holdOwn(tx, scope, actor.customer_id)
  const member = actor.member_id === null ? undefined : await findMember(tx, customer, { id: actor.member_id })
  if (actor.member_id !== null && !member) throw new NotPermitted('You are no longer a member of this customer.')
  const standing = member?.role ?? 'customer'
  allow(standing, action)
  return { ...customer, standing }
}

/** Locks the customer of the actor. Throws if the actor may not manage the team, or if the customer is not a team. */
export const holdTeam = async (tx: Tx, scope: TenantScope, actor: PortalActor) => {
  const customer = await holdStanding(tx, scope, actor, 'team:manage')
  refuseIndividual(customer)
  return customer
}

/** Rejects a customer that is not a team. */
export const refuseIndividual = (customer: CustomerRow): void => {
  if (customer.type !== 'team') throw new NotPermitted('This customer is an individual and has no team to manage.')
}

/**
 * Rejects sessions whose email address is not verified. Otherwise a person could type a stranger's address, and give
 * others lasting access to the stranger's later purchases.
 */
const refuseUnproved = async (tx: Tx, { organization_id, credential_id }: PortalActor): Promise<void> => {
  if ((await findSession(tx, organization_id, credential_id))?.unproved) throw new AddressNotProved()
}

/** Adds a plain member or a billing manager. Owners and billing managers may do this. A second owner is rejected. */
export const addToTeam = async (
  tx: Tx,
  scope: TenantScope,
  actor: PortalActor,
  body: { email: string; name?: string | null | undefined; role: MemberRole },
): Promise<MemberRow> => {
  const customer = await holdTeam(tx, scope, actor)
  if (body.role === 'owner') throw invalid(['body', 'role'], 'A team has one owner. Add the member first, then make them the owner.', body.role)
  if (body.role !== 'member') await refuseUnproved(tx, actor)
  return addMember(tx, customer, { email: body.email, name: body.name ?? null, external_id: null, role: body.role })
}

/** Updates a member. Members cannot change their own role, and only the owner transfers ownership. */
export const updateInTeam = async (
  tx: Tx,
  scope: TenantScope,
  actor: PortalActor,
  id: string,
  body: { name?: string | null | undefined; role?: MemberRole | null | undefined },
): Promise<MemberRow> => {
  const customer = await holdTeam(tx, scope, actor)
  const member = await findMemberOf(tx, customer, { id })
  if (body.role && body.role !== member.role) {
    if (member.id === actor.member_id) throw invalid(['body', 'role'], 'You cannot change your own role. Ask the owner or another billing manager.', body.role)
    if (body.role === 'owner') allow(customer.standing, 'team:hand_over')
    await refuseUnproved(tx, actor)
  }
  return updateMember(tx, customer, member, body)
}

/** Removes a member. Members cannot remove themselves, and the owner cannot be removed. */
export const removeFromTeam = async (tx: Tx, scope: TenantScope, actor: PortalActor, id: string): Promise<void> => {
  const customer = await holdTeam(tx, scope, actor)
  const member = await findMemberOf(tx, customer, { id })
  if (member.id === actor.member_id) throw invalid(['path', 'id'], 'You cannot remove yourself. Ask the owner or another billing manager.', id)
  await deleteMember(tx, customer, member, 'id')
}

const invalid = (loc: string[], msg: string, input: unknown) => new InvalidRequest({ loc, msg, type: 'value_error', input })

/**
 * Requests a change of the email address. The response does not reveal whether another customer has the new address.
 * That is checked later, and only the owner of the new address sees the result.
 */
export const requestEmailChange = async (tx: Tx, scope: TenantScope, actor: PortalActor, email: string): Promise<void> => {
  const { organization_id, customer_id, member_id } = actor
  const customer = await holdStanding(tx, scope, actor, 'billing:manage')
  await refuseUnproved(tx, actor)
  const { customer_portal_settings } = (await findOrganization(tx, scope, organization_id))!
  if (!customer_portal_settings.customer?.allow_email_change)
    throw new NotPermitted('This seller does not allow customers to change their address here. Write to the seller.')
  const wall = tx.clock.wall()
  if ((await countWishes(tx, customer, later(wall, -1 * hours))) >= wishesPerHour)
    throw new TooManyRequests(`The address can be changed ${wishesPerHour} times an hour at most. Try again later.`, { 'retry-after': '3600' })
  await withdrawEmailChange(tx, customer)
  const wish = { organization_id, id: newId(wall), customer_id, member_id, email, created_at: wall, expires_at: later(wall, linkLife) }
  await insertChange(tx, { ...wish, previous_email: null, closed_at: null })
  await enqueue(tx, 'mail.customer_email_change', { organization_id, change_id: wish.id })
}

/** Creates the secret link and mails it to the new address, unless another customer already has that address. */
export const mailEmailChange = async (deps: Deps, { organization_id, change_id }: { organization_id: string; change_id: string }): Promise<void> => {
  const { db, transact, platform } = deps
  const wish = await findChange(db, organization_id, change_id)
  const organization = wish && (await findSeller(db, { id: organization_id }))
  if (!organization || wish.closed_at || wish.expires_at <= platform.clock.wall()) return
  const scope = within(organization_id, 'portal', organization.member_phase)
  const secret = newToken('email_change', platform.config.environment)
  const sent = await transact(async (tx) => {
    if ((await findTaken(tx, scope, organization_id, { email: wish.email }, wish.customer_id)).email) return false
    await dropCredentials(tx, 'email_change', change_id)
    await addCredential(tx, platform.hasher, secret, { kind: 'email_change', subject_id: change_id, organization_id })
    return true
  })
  if (!sent) return
  const [customer] = await findCustomers(db, scope, { id: wish.customer_id })
  await sendMail(deps, {
    to: wish.email,
    seller: organization,
    customer_ids: [wish.customer_id],
    language: languageOfCustomer(customer),
    view: { kind: 'email_change', confirm_url: portalUrl(platform, organization, `/email?token=${secret.reveal()}`) },
  })
}

/** Returns an open, unexpired request to change the email address. Throws if the requester was deleted or lost the permission. */
const findGrantable = async (db: Db, now: Date, subject: Awaited<ReturnType<typeof findSubject>>) => {
  const wish = subject?.kind === 'email_change' && subject.organization_id ? await findChange(db, subject.organization_id, subject.subject_id) : undefined
  const organization = wish && wish.closed_at === null && wish.expires_at > now ? await findSeller(db, { id: wish.organization_id }) : undefined
  if (!wish || !organization || !mayChange(organization.customer_portal_settings)) throw new EmailUpdateInvalidOrExpired()
  const scope = within(wish.organization_id, 'portal', organization.member_phase)
  const [customer] = await findCustomers(db, scope, { id: wish.customer_id })
  const member = customer && wish.member_id !== null ? await findMember(db, customer, { id: wish.member_id }) : undefined
  const role = wish.member_id === null ? 'customer' : member?.role
  if (!customer || !role || !allows(role, 'billing:manage')) throw new EmailUpdateInvalidOrExpired()
  return { wish, scope }
}

/** Throws if the link of an address change is no longer valid. Does not consume the link. */
export const checkEmailChange = async (db: Db, platform: Platform, token: string): Promise<void> => {
  await findGrantable(db, platform.clock.wall(), await findSubject(db, platform.hasher, new Secret(token)))
}

/**
 * Applies a requested change of the email address, once, and notifies the old address. The requester must still have
 * permission. The link proves only access to the new address. For a request by a member, it therefore opens a session
 * only for the member with that address.
 */
export const verifyEmailChange = async (tx: Tx, platform: Platform, token: string): Promise<Secret | undefined> => {
  const secret = new Secret(token)
  const subject = await findSubject(tx, platform.hasher, secret)
  const { wish, scope } = await findGrantable(tx, tx.clock.wall(), subject)
  const { organization_id, customer_id } = wish
  // Lock the customer before the secret. A new request uses the same order.
  const [customer] = await lockCustomers(tx, scope, { id: customer_id })
  if (!customer || !(await takeSubject(tx, platform.hasher, secret, 'email_change'))) throw new EmailUpdateInvalidOrExpired()
  await findGrantable(tx, tx.clock.wall(), subject)
  if ((await findTaken(tx, scope, organization_id, { email: wish.email }, customer_id)).email)
    throw invalid(['body', 'token'], 'This address already belongs to another customer of this seller.', undefined)
  await markDone(tx, wish, customer.email, tx.clock.wall())
  const changed = await changeCustomer(tx, scope, customer, { email: wish.email, email_verified: true })
  await enqueue(tx, 'mail.customer_email_changed', { organization_id, change_id: wish.id })
  if (wish.member_id === null) return (await openCustomerSession(tx, platform, { organization_id, customer_id, member_id: null })).token
  const holder = await findMemberByEmail(tx, changed, wish.email)
  return holder && (await openCustomerSession(tx, platform, { organization_id, customer_id, member_id: holder.id })).token
}

/** Notifies the previous address, so that an unintended change is noticed. */
export const mailEmailChanged = async (deps: Deps, { organization_id, change_id }: { organization_id: string; change_id: string }): Promise<void> => {
  const { db, platform } = deps
  const done = await findChange(db, organization_id, change_id)
  const organization = done && (await findSeller(db, { id: organization_id }))
  if (!organization || !done.previous_email) return
  const [customer] = await findCustomers(db, within(organization_id, 'portal', organization.member_phase), { id: done.customer_id })
  await sendMail(deps, {
    to: done.previous_email,
    seller: organization,
    customer_ids: [done.customer_id],
    language: languageOfCustomer(customer),
    view: { kind: 'email_changed', portal_url: portalUrl(platform, organization, '/sign-in') },
  })
}
