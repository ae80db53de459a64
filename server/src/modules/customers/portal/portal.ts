import {
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
import { within, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { newToken, Secret } from '../../../kernel/secrets.ts'
import { hours, later } from '../../../platform/clock.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Db, Locked, Tx } from '../../../platform/postgres/postgres.ts'
import type { Means, Platform } from '../../handlers.ts'
import { addCredential, dropCredentials, findSubject, takeSubject } from '../../identity/index.ts'
import { findOrganization, findSeller } from '../../organizations/index.ts'
import { findCustomers, findTaken, isMethodOf, lockCustomers, type CustomerRow } from '../customers/customers.sql.ts'
import { change, changeBilling, present, withdrawEmailChange } from '../customers/customers.ts'
import { findMember, findMemberByEmail, findOwner, type MemberRow } from '../members/members.sql.ts'
import { find as findMemberOf, add, remove, update } from '../members/members.ts'
import { findSession } from '../sessions/sessions.sql.ts'
import { holdOwn, open } from '../sessions/sessions.ts'
import { countWishes, findChange, insertChange, markDone } from './portal.sql.ts'
import { allow, allows } from './roles.ts'

const linkLife = 1 * hours
const wishesPerHour = 5

const mayChange = (settings: Organization['customer_portal_settings']) => settings.customer?.allow_email_change === true

/** The customer of a portal session. It needs no permission of the organization's to see its own. */
export const findOwn = async (db: Db, reach: Reach, { customer_id }: PortalActor): Promise<CustomerRow> => {
  const [customer] = await findCustomers(db, reach, { id: customer_id })
  if (!customer) throw new Unauthorized('This session has ended.')
  return customer
}

/** Who the person behind a session is. */
export const findPerson = async (db: Db, reach: Reach, actor: PortalActor): Promise<{ name: string | null; email: string }> => {
  const customer = await findOwn(db, reach, actor)
  const member = actor.member_id === null ? undefined : await findMember(db, customer, { id: actor.member_id })
  if (member) return member
  const address = actor.member_id === null ? (customer.email ?? (await findOwner(db, customer))?.email) : undefined
  if (address === undefined) throw new Unauthorized('This session has ended.')
  return { name: customer.name, email: address }
}

/** The customer as this person may see it: who does not pay learns whom they belong to, and nothing of what is paid or by whom. */
export const presentOwn = (row: CustomerRow, role: PortalActor['role']): CustomerPortalCustomer => {
  const { id, created_at, modified_at, email, email_verified, name, billing_name, billing_address, tax_id, default_payment_method_id, type, locale } =
    present(row)
  const seen = { id, created_at, modified_at, name, type, locale, oauth_accounts: {} }
  return allows(role, 'billing:read')
    ? { ...seen, email, email_verified, billing_name, billing_address, tax_id, default_payment_method_id }
    : { ...seen, email: null, email_verified: false, billing_name: null, billing_address: null, tax_id: null, default_payment_method_id: null }
}

/** Whoever pays keeps the billing details. */
export const updateOwn = async (tx: Tx, reach: Reach, actor: PortalActor, body: z.output<typeof CustomerPortalCustomerUpdate>): Promise<CustomerRow> => {
  const customer = await holdStanding(tx, reach, actor, 'billing:manage')
  const { changes, problems } = changeBilling(customer, body)
  if (body.billing_name !== undefined) changes.billing_name = body.billing_name
  if (body.default_payment_method_id !== undefined) {
    // Whoever wants none deletes it.
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
  // What is owed is tried at once with what they pay with from now on.
  if (changes.default_payment_method_id && changes.default_payment_method_id !== customer.default_payment_method_id)
    await enqueue(tx, 'billing.method_changed', { organization_id: customer.organization_id, customer_id: customer.id })
  return change(tx, reach, customer, changes)
}

/**
 * Holds the customer, then looks at the role again: it may have been taken away while we waited, and a right counts
 * where the change is made.
 */
export const holdStanding = async (
  tx: Tx,
  reach: Reach,
  actor: PortalActor,
  action: Parameters<typeof allow>[1],
): Promise<Locked<CustomerRow> & { standing: PortalActor['role'] }> => {
  const customer = await holdOwn(tx, reach, actor.customer_id)
  const member = actor.member_id === null ? undefined : await findMember(tx, customer, { id: actor.member_id })
  if (actor.member_id !== null && !member) throw new NotPermitted('You are no longer a member here.')
  const standing = member?.role ?? 'customer'
  allow(standing, action)
  return { ...customer, standing }
}

/** A team manages itself through those who lead it. */
export const holdTeam = async (tx: Tx, reach: Reach, actor: PortalActor) => {
  const customer = await holdStanding(tx, reach, actor, 'team:manage')
  refuseIndividual(customer)
  return customer
}

/** Only a team has a team to manage. */
export const refuseIndividual = (customer: CustomerRow): void => {
  if (customer.type !== 'team') throw new NotPermitted('This customer is one person, and has no team to manage.')
}

/** Whoever has only typed an address gives nobody a lasting hold on what its owner may buy some day. */
const refuseUnproved = async (tx: Tx, { organization_id, credential_id }: PortalActor): Promise<void> => {
  if ((await findSession(tx, organization_id, credential_id))?.unproved) throw new AddressNotProved()
}

/** Leaders add members and other leaders, never a second owner. */
export const addToTeam = async (
  tx: Tx,
  reach: Reach,
  actor: PortalActor,
  body: { email: string; name?: string | null | undefined; role: MemberRole },
): Promise<MemberRow> => {
  const customer = await holdTeam(tx, reach, actor)
  if (body.role === 'owner') throw invalid(['body', 'role'], 'A team has one owner: add the member first, then hand the team over.', body.role)
  if (body.role !== 'member') await refuseUnproved(tx, actor)
  return add(tx, customer, { email: body.email, name: body.name ?? null, external_id: null, role: body.role })
}

/** Nobody changes their own role, and only the owner hands over. */
export const updateInTeam = async (
  tx: Tx,
  reach: Reach,
  actor: PortalActor,
  id: string,
  body: { name?: string | null | undefined; role?: MemberRole | null | undefined },
): Promise<MemberRow> => {
  const customer = await holdTeam(tx, reach, actor)
  const member = await findMemberOf(tx, customer, { id })
  if (body.role && body.role !== member.role) {
    if (member.id === actor.member_id) throw invalid(['body', 'role'], 'Nobody changes their own role: ask another leader of the team.', body.role)
    if (body.role === 'owner') allow(customer.standing, 'team:hand_over')
    await refuseUnproved(tx, actor)
  }
  return update(tx, customer, member, body)
}

/** Nobody removes themselves, and the owner stays. */
export const removeFromTeam = async (tx: Tx, reach: Reach, actor: PortalActor, id: string): Promise<void> => {
  const customer = await holdTeam(tx, reach, actor)
  const member = await findMemberOf(tx, customer, { id })
  if (member.id === actor.member_id) throw invalid(['path', 'id'], 'Nobody removes themselves: ask another leader of the team.', id)
  await remove(tx, customer, member, 'id')
}

const invalid = (loc: string[], msg: string, input: unknown) => new InvalidRequest({ loc, msg, type: 'value_error', input })

/** Asks for another address. The answer tells nothing about it: whether it is free is found out where only its owner looks. */
export const requestEmailChange = async (tx: Tx, reach: Reach, actor: PortalActor, email: string): Promise<void> => {
  const { organization_id, customer_id, member_id } = actor
  const customer = await holdStanding(tx, reach, actor, 'billing:manage')
  await refuseUnproved(tx, actor)
  const { customer_portal_settings } = (await findOrganization(tx, reach, organization_id))!
  if (!customer_portal_settings.customer?.allow_email_change)
    throw new NotPermitted('This seller does not let customers change their address here. Write to them.')
  const wall = tx.clock.wall()
  if ((await countWishes(tx, customer, later(wall, -1 * hours))) >= wishesPerHour)
    throw new TooManyRequests(`The address can be changed ${wishesPerHour} times an hour at most. Try again later.`, { 'retry-after': '3600' })
  await withdrawEmailChange(tx, customer)
  const wish = { organization_id, id: newId(wall), customer_id, member_id, email, created_at: wall, expires_at: later(wall, linkLife) }
  await insertChange(tx, { ...wish, previous_email: null, closed_at: null })
  await enqueue(tx, 'mail.customer_email_change', { organization_id, change_id: wish.id })
}

/** Makes the secret of the link and mails it to the new address, unless somebody here has it already. */
export const mailEmailChange = async (
  { db, transact, gateways, platform }: Means,
  { organization_id, change_id }: { organization_id: string; change_id: string },
): Promise<void> => {
  const wish = await findChange(db, organization_id, change_id)
  const organization = wish && (await findSeller(db, { id: organization_id }))
  if (!organization || wish.closed_at || wish.expires_at <= platform.clock.wall()) return
  const reach = within(organization_id, 'portal', organization.member_phase)
  const secret = newToken('email_change', platform.config.environment)
  const sent = await transact(async (tx) => {
    if ((await findTaken(tx, reach, organization_id, { email: wish.email }, wish.customer_id)).email) return false
    await dropCredentials(tx, 'email_change', change_id)
    await addCredential(tx, platform.hasher, secret, { kind: 'email_change', subject_id: change_id, organization_id })
    return true
  })
  if (!sent) return
  await gateways.mail.send({
    to: wish.email,
    subject: `Confirm your new address with ${organization.name}`,
    text: `Open this link to use this address for your account with ${organization.name}:\n${new URL(`/${organization.slug}/portal/email?token=${secret.reveal()}`, platform.config.public_url).href}\n\nIt works once, for an hour. If you did not ask for it, you can ignore this message.`,
  })
}

/** A wish that can still be granted: open, in time, of a customer and a person who are there and may. */
const findGrantable = async (db: Db, now: Date, subject: Awaited<ReturnType<typeof findSubject>>) => {
  const wish = subject?.kind === 'email_change' && subject.organization_id ? await findChange(db, subject.organization_id, subject.subject_id) : undefined
  const organization = wish && wish.closed_at === null && wish.expires_at > now ? await findSeller(db, { id: wish.organization_id }) : undefined
  if (!wish || !organization || !mayChange(organization.customer_portal_settings)) throw new EmailUpdateInvalidOrExpired()
  const reach = within(wish.organization_id, 'portal', organization.member_phase)
  const [customer] = await findCustomers(db, reach, { id: wish.customer_id })
  const member = customer && wish.member_id !== null ? await findMember(db, customer, { id: wish.member_id }) : undefined
  const role = wish.member_id === null ? 'customer' : member?.role
  if (!customer || !role || !allows(role, 'billing:manage')) throw new EmailUpdateInvalidOrExpired()
  return { wish, reach }
}

/** Tells whether a link would still work, and uses nothing up. */
export const checkEmailChange = async (db: Db, platform: Platform, token: string): Promise<void> => {
  await findGrantable(db, platform.clock.wall(), await findSubject(db, platform.hasher, new Secret(token)))
}

/**
 * Whoever holds the link owns the new address; whoever asked must still be allowed to. It happens once, and the old
 * address is told. The link proves an address and no more: it opens a session only for the member whose address it is.
 */
export const verifyEmailChange = async (tx: Tx, platform: Platform, token: string): Promise<Secret | undefined> => {
  const secret = new Secret(token)
  const subject = await findSubject(tx, platform.hasher, secret)
  const { wish, reach } = await findGrantable(tx, tx.clock.wall(), subject)
  const { organization_id, customer_id } = wish
  // The customer first, then the secret: in the order in which a wish is made.
  const [customer] = await lockCustomers(tx, reach, { id: customer_id })
  if (!customer || !(await takeSubject(tx, platform.hasher, secret, 'email_change'))) throw new EmailUpdateInvalidOrExpired()
  await findGrantable(tx, tx.clock.wall(), subject)
  if ((await findTaken(tx, reach, organization_id, { email: wish.email }, customer_id)).email)
    throw invalid(['body', 'token'], 'This address belongs to another customer of this seller by now.', undefined)
  await markDone(tx, wish, customer.email, tx.clock.wall())
  const changed = await change(tx, reach, customer, { email: wish.email, email_verified: true })
  await enqueue(tx, 'mail.customer_email_changed', { organization_id, change_id: wish.id })
  if (wish.member_id === null) return (await open(tx, platform, { organization_id, customer_id, member_id: null })).token
  const holder = await findMemberByEmail(tx, changed, wish.email)
  return holder && (await open(tx, platform, { organization_id, customer_id, member_id: holder.id })).token
}

/** The address before is told, so that a change nobody meant does not stay unseen. */
export const mailEmailChanged = async (
  { db, gateways }: Means,
  { organization_id, change_id }: { organization_id: string; change_id: string },
): Promise<void> => {
  const done = await findChange(db, organization_id, change_id)
  const organization = done && (await findSeller(db, { id: organization_id }))
  if (!organization || !done.previous_email) return
  await gateways.mail.send({
    to: done.previous_email,
    subject: `Your address with ${organization.name} was changed`,
    text: `Your account with ${organization.name} now uses another e-mail address. If this was not you, write to ${organization.email ?? organization.name} at once.`,
  })
}
