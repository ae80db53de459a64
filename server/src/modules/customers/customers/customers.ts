import { isDeepStrictEqual } from 'node:util'
import {
  customerCreated,
  customerDeleted,
  customerUpdated,
  InvalidRequest,
  type Address,
  type AddressInput,
  type Customer,
  type CustomerCreate,
  type CustomerUpdate,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { inTimeOf, type Clocked } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { markLocked } from '../../../platform/postgres/locks.ts'
import { type BusinessTx, isUniqueViolation, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, permit } from '../../organizations/index.ts'
import { emitMemberCreated, mirrorEmail, mirrorHeld, newMember, removeAll } from '../members/members.ts'
import { forgetSubjects } from '../../identity/index.ts'
import { withdrawOpen } from '../records/portal.sql.ts'
import { isClockOf } from '../records/test-clocks.sql.ts'
import { avatarOf } from './avatars.ts'
import {
  updateCustomerRow,
  findTaken,
  holdAddress,
  insertCustomer,
  lockCustomers,
  lockDeleted,
  markBuyer,
  reviveHolder,
  touchState,
  type Naming,
} from '../records/customers.sql.ts'
import { type CustomerRow } from '../records/customer-rows.sql.ts'
import type { MemberRow } from '../records/member-rows.sql.ts'
import { insertMemberRow } from '../records/members.sql.ts'
import { requireLockedCustomer } from '../records/customers.ts'
import { readTaxId } from './tax-ids.ts'

/** Presents the customer in the API's format. */
export const presentCustomer = (row: CustomerRow): Customer => {
  const { tax_id_format, forgotten_at: _, ...shown } = row
  const common = {
    ...shown,
    billing_name: row.billing_name ?? row.name,
    tax_id: row.tax_id === null ? null : ([row.tax_id, tax_id_format!] as [string, NonNullable<typeof tax_id_format>]),
    avatar_url: avatarOf(row),
  }
  return row.type === 'team' ? { ...common, type: 'team' } : { ...common, type: 'individual', email: row.email! }
}

/** Default values of a new customer. */
const nothingKnown = {
  modified_at: null,
  deleted_at: null,
  email_verified: false,
  external_id: null,
  name: null,
  billing_name: null,
  billing_address: null,
  tax_id: null,
  tax_id_format: null,
  locale: null,
  metadata: {},
  default_payment_method_id: null,
  first_user_event_at: null,
  forgotten_at: null,
} as const satisfies Partial<CustomerRow>

/**
 * Creates a customer together with its owner, so that every customer has an owner. The email address and external id
 * must be unique in the organization. Unique keys decide between concurrent requests.
 */
export const createCustomer = async (wall: Tx, scope: TenantScope, body: z.output<typeof CustomerCreate>): Promise<CustomerRow> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'customers:manage')
  const email = body.email ?? null
  const owner = body.owner ?? (email === null ? null : { email, name: body.name, external_id: body.external_id })
  const billing = changeBilling({ billing_address: null, tax_id: null, tax_id_format: null }, body)
  const problems: Invalid[] = [...billing.problems]
  if (!owner)
    problems.push({
      loc: ['body', 'owner'],
      msg: 'A team without an e-mail address needs an owner. Give owner.email, or email.',
      type: 'missing',
    })
  if (body.type !== 'team' && owner && email !== null && owner.email.toLowerCase() !== email.toLowerCase())
    problems.push({
      loc: ['body', 'owner', 'email'],
      msg: "An individual customer is its own owner. Leave the owner's address out, or give the same one.",
      type: 'value_error',
      input: owner.email,
    })
  const clock_id = body.test_clock_id ?? null
  if (clock_id !== null && !(await isClockOf(wall, organization_id, clock_id)))
    problems.push({ loc: ['body', 'test_clock_id'], msg: 'There is no test clock with this id.', type: 'value_error', input: clock_id })
  if (email !== null) await holdAddress(wall, organization_id, email)
  const taken = await findTaken(wall, scope, organization_id, { email, external_id: body.external_id })
  if (taken.email) problems.push(twin('email', email))
  if (taken.external_id) problems.push(twin('external_id', body.external_id))
  if (problems.length > 0 || !owner) throw new InvalidRequest(problems)
  const tx = await inTimeOf(wall, { organization_id, clock_id })
  const now = tx.clock.business()
  const row: CustomerRow = {
    ...nothingKnown,
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: now,
    type: body.type ?? 'individual',
    email,
    external_id: body.external_id ?? null,
    name: body.name ?? null,
    locale: body.locale ?? null,
    clock_id,
    metadata: body.metadata ?? {},
    ...billing.changes,
  }
  const revived = taken.holder ? await unique(row, () => reviveHolder(tx, scope, row)) : undefined
  const customer = revived === undefined ? row : { ...row, id: revived }
  const member = newMember(tx, customer, { email: owner.email, name: owner.name ?? null, external_id: owner.external_id ?? null, role: 'owner' })
  if (revived === undefined) await unique(row, () => insertCustomer(tx, row, member))
  else {
    await insertMemberRow(tx, member)
    await touchState(tx, { organization_id, customer_id: revived })
  }
  return begin(tx, customer, member)
}

const begin = async (tx: BusinessTx, row: CustomerRow, owner: MemberRow): Promise<Locked<CustomerRow>> => {
  // Other transactions cannot see the new row yet, so it counts as locked.
  const customer = markLocked(row)
  await emit(tx, customerCreated, subject(customer), presentCustomer(customer))
  await emitMemberCreated(tx, owner)
  return customer
}

/**
 * Creates a customer for a person who is assigned a seat before phase 2 and is not a customer yet. Marks the customer as
 * a pure seat holder.
 */
export const createHolder = async (wall: Tx, { organization_id, clock_id }: Clocked, email: string): Promise<CustomerRow> => {
  const tx = await inTimeOf(wall, { organization_id, clock_id })
  const row: CustomerRow = {
    ...nothingKnown,
    organization_id,
    id: newId(tx.clock.wall()),
    created_at: tx.clock.business(),
    type: 'individual',
    email,
    clock_id,
  }
  const owner = newMember(tx, row, { email, name: null, external_id: null, role: 'owner' })
  await unique(row, () => insertCustomer(tx, row, owner, { pure_holder: true }))
  return begin(tx, row, owner)
}

/**
 * Marks a customer as a buyer after a purchase: it is no longer a pure seat holder. A buyer of seats is shown as a team
 * from phase 2 on. Emits an event if the API now shows the customer differently.
 */
export const becomeBuyer = async (wall: Tx, scope: TenantScope, customer: CustomerRow, what: { seats: boolean }): Promise<void> => {
  const { shows, returned } = await markBuyer(wall, scope, customer, what)
  const tx = await inTimeOf(wall, customer)
  if (returned) await emit(tx, customerCreated, subject(customer), presentCustomer(customer))
  if (!shows) return
  const changed = await updateCustomerRow(tx, scope, markLocked(customer), { modified_at: tx.clock.business() })
  await emit(tx, customerUpdated, subject(changed), presentCustomer(changed))
}

/** Locks a customer for anonymization, even if it was deleted before. */
export const holdToForget = async (tx: Tx, scope: TenantScope, naming: Naming): Promise<Locked<CustomerRow>> => {
  const [living] = await lockCustomers(tx, scope, naming)
  const gone = living === undefined && 'id' in naming ? await lockDeleted(tx, scope, naming.id) : undefined
  if (!gone) return requireLockedCustomer(tx, scope, naming)
  permit(scope, gone.organization_id, 'customers:manage')
  return gone
}

/** Updates the given fields of a customer and keeps the others. Emits `customer.updated` only if a value changed. */
export const updateCustomer = async (
  tx: Tx,
  scope: TenantScope,
  customer: Locked<CustomerRow>,
  body: z.output<typeof CustomerUpdate>,
): Promise<CustomerRow> => {
  const { changes, problems } = changeBilling(customer, body)
  if (body.name !== undefined) changes.name = body.name
  if (body.locale !== undefined) changes.locale = body.locale
  if (body.metadata !== undefined) changes.metadata = body.metadata
  if (body.type === 'team') changes.type = 'team'
  else if (body.type === 'individual' && customer.type === 'team')
    problems.push({ loc: ['body', 'type'], msg: 'A team cannot become an individual customer again.', type: 'value_error', input: body.type })
  if (body.external_id !== undefined && body.external_id !== customer.external_id) {
    if (customer.external_id === null) changes.external_id = body.external_id
    else
      problems.push({
        loc: ['body', 'external_id'],
        msg: `The external id cannot change. This customer has ${JSON.stringify(customer.external_id)}.`,
        type: 'value_error',
        input: body.external_id,
      })
  }
  if (body.email !== undefined && body.email !== customer.email) {
    if (body.email === null && (changes.type ?? customer.type) === 'individual')
      problems.push({ loc: ['body', 'email'], msg: 'An individual customer needs an e-mail address.', type: 'value_error', input: null })
    else Object.assign(changes, { email: body.email, email_verified: false })
  }
  if (changes.email) await holdAddress(tx, customer.organization_id, changes.email)
  const taken = await findTaken(tx, scope, customer.organization_id, changes, customer.id, { hidden: true })
  if (taken.email) problems.push(twin('email', changes.email))
  if (taken.external_id) problems.push(twin('external_id', changes.external_id))
  if (problems.length > 0) throw new InvalidRequest(problems)
  return changeCustomer(tx, scope, customer, changes)
}

/** Writes validated changes. Their time is that of the customer's test clock, if any. The owner of an individual customer gets the same address. */
export const changeCustomer = async (
  wall: Tx,
  scope: TenantScope,
  customer: Locked<CustomerRow>,
  changes: Partial<CustomerRow>,
): Promise<Locked<CustomerRow>> => {
  const different = Object.fromEntries(
    Object.entries(changes).filter(([column, value]) => !isDeepStrictEqual(value, customer[column as keyof CustomerRow])),
  ) as Partial<CustomerRow>
  if (Object.keys(different).length === 0) return customer
  const tx = await inTimeOf(wall, customer)
  // Only a team may have no email address, so removing the address turns the customer into a team.
  const written = { ...different, ...(different.email === null ? { type: 'team' as const } : {}), modified_at: tx.clock.business() }
  const changed = await unique({ ...customer, ...different }, () => updateCustomerRow(tx, scope, customer, written))
  await emit(tx, customerUpdated, subject(changed), presentCustomer(changed))
  if (different.email !== undefined) await withdrawEmailChange(tx, customer)
  if (different.email && customer.type === 'individual') await mirrorEmail(tx, changed, different.email)
  if (different.email && customer.email && scope.phases.get(customer.organization_id) !== 'phase2') await mirrorHeld(tx, changed, customer.email)
  return changed
}

/** Closes an open request to change the email address, and invalidates its link. Called after a session leaked or the address changed. */
export const withdrawEmailChange = async (tx: Tx, customer: { organization_id: string; id: string }): Promise<void> =>
  forgetSubjects(tx, await withdrawOpen(tx, customer, tx.clock.wall()))

/** Deletes a customer with all its members. Every portal request checks that both exist, so their sessions are invalid immediately. */
export const deleteCustomer = async (wall: Tx, scope: TenantScope, customer: Locked<CustomerRow>): Promise<void> => {
  const tx = await inTimeOf(wall, customer)
  await removeAll(tx, customer)
  const gone = await updateCustomerRow(tx, scope, customer, { deleted_at: tx.clock.business() })
  await emit(tx, customerDeleted, subject(gone), presentCustomer(gone))
  await lookAfterDeleted(tx, gone)
}

/**
 * Enqueues the jobs that end the purchases and benefits of a deleted customer. Called again when a pending payment
 * succeeds after the deletion and creates another purchase.
 */
export const lookAfterDeleted = async (tx: Tx, { organization_id, id: customer_id }: { organization_id: string; id: string }): Promise<void> => {
  await enqueue(tx, 'billing.customer_deleted', { organization_id, customer_id })
  await enqueue(tx, 'entitlements.customer_deleted', { organization_id, customer_id })
}

type Billing = Pick<CustomerRow, 'billing_address' | 'tax_id' | 'tax_id_format'>

/** Validates the tax number against the country of the billing address, even if only one of the two changes. */
export const changeBilling = (
  current: Billing,
  given: { billing_address?: z.output<typeof AddressInput> | null | undefined; tax_id?: string | null | undefined },
): { changes: Partial<CustomerRow>; problems: Invalid[] } => {
  const changes: Partial<CustomerRow> = {}
  const problems: Invalid[] = []
  if (given.billing_address === null && current.billing_address !== null)
    problems.push({ loc: ['body', 'billing_address'], msg: 'A billing address can be replaced, not removed.', type: 'value_error', input: null })
  if (given.billing_address) changes.billing_address = completeAddress(given.billing_address)
  const country = (changes.billing_address ?? current.billing_address)?.country
  if (given.tax_id === null) Object.assign(changes, { tax_id: null, tax_id_format: null })
  const number = given.tax_id ?? (given.tax_id === undefined && changes.billing_address ? current.tax_id : null)
  if (number === null) return { changes, problems }
  const read = country && readTaxId(number, country)
  if (read) Object.assign(changes, { tax_id: read[0], tax_id_format: read[1] })
  else
    problems.push({
      loc: ['body', 'tax_id'],
      msg: country
        ? `This is not a tax number of ${country}.${given.tax_id === undefined ? ' The existing number of the customer does not fit the new address: send a new one, or null to remove it.' : ''}`
        : 'A tax number needs a billing address. Also send billing_address.country.',
      type: country ? 'invalid' : 'value_error',
      input: number,
    })
  return { changes, problems }
}

/** Returns an address with all fields. Fields that were not given are null. */
export const completeAddress = ({
  line1 = null,
  line2 = null,
  postal_code = null,
  city = null,
  state = null,
  country,
}: z.output<typeof AddressInput>): Address => ({
  line1,
  line2,
  postal_code,
  city,
  state,
  country,
})

const subject = ({ organization_id, id }: CustomerRow) => ({ organization_id, resource_id: id, customer_id: id })

const twin = (field: 'email' | 'external_id', input: unknown): Invalid => ({
  loc: ['body', field],
  msg: field === 'email' ? 'A customer with this e-mail address already exists.' : 'A customer with this external id already exists.',
  type: 'value_error',
  input,
})

const unique = async <T>(row: Pick<CustomerRow, 'email' | 'external_id'>, write: () => Promise<T>): Promise<T> => {
  try {
    return await write()
  } catch (error) {
    if (isUniqueViolation(error, 'customers_email')) throw new InvalidRequest(twin('email', row.email))
    if (isUniqueViolation(error, 'customers_external_id')) throw new InvalidRequest(twin('external_id', row.external_id))
    throw error
  }
}
