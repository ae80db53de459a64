import { isDeepStrictEqual } from 'node:util'
import {
  AmbiguousExternalCustomerID,
  customerCreated,
  customerDeleted,
  customerUpdated,
  InvalidRequest,
  NoSuchCustomer,
  type Address,
  type AddressInput,
  type Customer,
  type CustomerCreate,
  type CustomerUpdate,
  type Invalid,
} from '@bursar/contract'
import type { z } from 'zod'
import type { Reach } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import { inTimeOf, type Clocked } from '../../../platform/clocks.sql.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import { emit } from '../../../platform/outbox/outbox.sql.ts'
import { isTwin, type Db, type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { chooseOrganization, confine, permit, type Permission } from '../../organizations/index.ts'
import { insert as insertMember, mirrorEmail, mirrorHeld, removeAll } from '../members/members.ts'
import { forgetSubjects } from '../../identity/index.ts'
import { withdrawOpen } from '../portal/portal.sql.ts'
import { isClockOf } from '../test-clocks/test-clocks.sql.ts'
import { avatarOf } from './avatars.ts'
import {
  changeCustomer,
  findCustomers,
  findMoved,
  findTaken,
  holdAddress,
  insertCustomer,
  lockCustomers,
  lockDeleted,
  markBuyer,
  reviveHolder,
  touchState,
  type CustomerRow,
  type Marked,
  type Naming,
} from './customers.sql.ts'
import { readTaxId } from './tax-ids.ts'

/** The customer as the wire shows it. */
export const present = (row: CustomerRow): Customer => {
  const { tax_id_format, forgotten_at: _, ...shown } = row
  const common = {
    ...shown,
    billing_name: row.billing_name ?? row.name,
    tax_id: row.tax_id === null ? null : ([row.tax_id, tax_id_format!] as [string, NonNullable<typeof tax_id_format>]),
    avatar_url: avatarOf(row),
  }
  return row.type === 'team' ? { ...common, type: 'team' } : { ...common, type: 'individual', email: row.email! }
}

/** What is so of a customer of whom nothing was said. */
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
 * An address and an external id name one living customer of an organization, however many callers ask at once: the
 * unique keys decide. The owner is created with the customer, so a customer never stands without one.
 */
export const create = async (wall: Tx, reach: Reach, body: z.output<typeof CustomerCreate>): Promise<CustomerRow> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'customers:manage')
  const email = body.email ?? null
  const owner = body.owner ?? (email === null ? null : { email, name: body.name, external_id: body.external_id })
  const billing = changeBilling({ billing_address: null, tax_id: null, tax_id_format: null }, body)
  const problems: Invalid[] = [...billing.problems]
  if (!owner)
    problems.push({
      loc: ['body', 'owner'],
      msg: 'A team without an e-mail address must name its owner: give owner.email, or email.',
      type: 'missing',
    })
  if (body.type !== 'team' && owner && email !== null && owner.email.toLowerCase() !== email.toLowerCase())
    problems.push({
      loc: ['body', 'owner', 'email'],
      msg: 'An individual customer is its own owner: leave the address of the owner out, or give the same.',
      type: 'value_error',
      input: owner.email,
    })
  const clock_id = body.test_clock_id ?? null
  if (clock_id !== null && !(await isClockOf(wall, organization_id, clock_id)))
    problems.push({ loc: ['body', 'test_clock_id'], msg: 'There is no test clock with this id.', type: 'value_error', input: clock_id })
  if (email !== null) await holdAddress(wall, organization_id, email)
  const taken = await findTaken(wall, reach, organization_id, { email, external_id: body.external_id })
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
  const revived = await unique(row, () => reviveHolder(tx, reach, row))
  if (revived === undefined) await unique(row, () => insertCustomer(tx, row))
  return begin(tx, revived === undefined ? row : { ...row, id: revived }, owner)
}

const begin = async (tx: Tx, row: CustomerRow, owner: { email: string; name?: string | null | undefined; external_id?: string | null | undefined }) => {
  // Nobody else can see the row yet, which is as good as holding it.
  const customer = row as Locked<CustomerRow>
  await emit(tx, customerCreated, subject(customer), present(customer))
  await insertMember(tx, customer, { email: owner.email, name: owner.name ?? null, external_id: owner.external_id ?? null, role: 'owner' })
  await touchState(tx, { organization_id: row.organization_id, customer_id: row.id })
  return customer
}

/** Whoever is given a seat before there are members is a customer of their own, if they are none yet; one that only holds seats. */
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
  await unique(row, () => insertCustomer(tx, row, { pure_holder: true }))
  return begin(tx, row, { email })
}

/** Something was bought: whoever only held seats is a customer in its own right from here on, and whoever bought seats is a team. */
export const becomeBuyer = async (wall: Tx, reach: Reach, customer: CustomerRow, what: { seats: boolean }): Promise<void> => {
  const { shows, returned } = await markBuyer(wall, reach, customer, what)
  const tx = await inTimeOf(wall, customer)
  if (returned) await emit(tx, customerCreated, subject(customer), present(customer))
  if (!shows) return
  const changed = await changeCustomer(tx, reach, customer as Locked<CustomerRow>, { modified_at: tx.clock.business() })
  await emit(tx, customerUpdated, subject(changed), present(changed))
  await touchState(tx, { organization_id: changed.organization_id, customer_id: changed.id })
}

/** The one customer that a caller means, if the caller may see it. */
export const find = async (db: Db, reach: Reach, naming: Naming, permission: Permission = 'customers:read'): Promise<CustomerRow & Marked> => {
  const customer = await one(db, reach, naming, await findCustomers(db, reach, naming))
  permit(reach, customer.organization_id, permission)
  return customer
}

/** The same, held until the transaction ends: its members, address and type change by one caller at a time. */
export const hold = async (tx: Tx, reach: Reach, naming: Naming, permission: Permission = 'customers:manage'): Promise<Locked<CustomerRow>> => {
  const customer = await one(tx, reach, naming, await lockCustomers(tx, reach, naming))
  permit(reach, customer.organization_id, permission)
  return customer
}

/** Held, deleted or not: a person can be forgotten after they were deleted, too. */
export const holdToForget = async (tx: Tx, reach: Reach, naming: Naming): Promise<Locked<CustomerRow>> => {
  const [living] = await lockCustomers(tx, reach, naming)
  const gone = living === undefined && 'id' in naming ? await lockDeleted(tx, reach, naming.id) : undefined
  if (!gone) return hold(tx, reach, naming)
  permit(reach, gone.organization_id, 'customers:manage')
  return gone
}

/** To whoever may read customers, one that has become a member is not just absent: they are told which. */
const one = async <T extends CustomerRow & Marked>(db: Db, reach: Reach, naming: Naming, found: readonly T[]): Promise<T> => {
  const [customer, another] = found
  if (customer === undefined) {
    const moved = await findMoved(db, confine(reach, 'customers:read'), naming)
    throw new NoSuchCustomer(undefined, undefined, moved ? { moved } : {})
  }
  if (another !== undefined) throw new AmbiguousExternalCustomerID()
  if (customer.only_holds) reach.notice?.(customer.organization_id, 'fetched_holder')
  return customer
}

/** Changes what is given, leaves what is absent, and says so only where something is different afterwards. */
export const update = async (tx: Tx, reach: Reach, customer: Locked<CustomerRow>, body: z.output<typeof CustomerUpdate>): Promise<CustomerRow> => {
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
        msg: `The external id is given once: this customer has ${JSON.stringify(customer.external_id)}.`,
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
  const taken = await findTaken(tx, reach, customer.organization_id, changes, customer.id, { hidden: true })
  if (taken.email) problems.push(twin('email', changes.email))
  if (taken.external_id) problems.push(twin('external_id', changes.external_id))
  if (problems.length > 0) throw new InvalidRequest(problems)
  return change(tx, reach, customer, changes)
}

/** Writes changes that were found to be right, in the customer's time. The owner of an individual customer follows its address. */
export const change = async (wall: Tx, reach: Reach, customer: Locked<CustomerRow>, changes: Partial<CustomerRow>): Promise<Locked<CustomerRow>> => {
  const different = Object.fromEntries(
    Object.entries(changes).filter(([column, value]) => !isDeepStrictEqual(value, customer[column as keyof CustomerRow])),
  ) as Partial<CustomerRow>
  if (Object.keys(different).length === 0) return customer
  const tx = await inTimeOf(wall, customer)
  // Only a team can be without an address, whichever phase shows it.
  const written = { ...different, ...(different.email === null ? { type: 'team' as const } : {}), modified_at: tx.clock.business() }
  const changed = await unique({ ...customer, ...different }, () => changeCustomer(tx, reach, customer, written))
  await emit(tx, customerUpdated, subject(changed), present(changed))
  await touchState(tx, { organization_id: changed.organization_id, customer_id: changed.id })
  if (different.email !== undefined) await withdrawEmailChange(tx, customer)
  if (different.email && customer.type === 'individual') await mirrorEmail(tx, changed, different.email)
  if (different.email && customer.email && reach.phases.get(customer.organization_id) !== 'phase2') await mirrorHeld(tx, changed, customer.email)
  return changed
}

/** An address that changes, or a session that leaked, ends whatever wish for another address is open. */
export const withdrawEmailChange = async (tx: Tx, customer: { organization_id: string; id: string }): Promise<void> =>
  forgetSubjects(tx, await withdrawOpen(tx, customer, tx.clock.wall()))

/** Gone at once with all its members, whose sessions end by that: what they open is asked for with every request. */
export const remove = async (wall: Tx, reach: Reach, customer: Locked<CustomerRow>): Promise<void> => {
  const tx = await inTimeOf(wall, customer)
  await removeAll(tx, customer)
  const gone = await changeCustomer(tx, reach, customer, { deleted_at: tx.clock.business() })
  await emit(tx, customerDeleted, subject(gone), present(gone))
  await lookAfterDeleted(tx, gone)
  await touchState(tx, { organization_id: gone.organization_id, customer_id: gone.id })
}

/** Has everything ended that a deleted customer had: also what comes to them later, by a payment that was under way. */
export const lookAfterDeleted = async (tx: Tx, { organization_id, id: customer_id }: { organization_id: string; id: string }): Promise<void> => {
  await enqueue(tx, 'billing.customer_deleted', { organization_id, customer_id })
  await enqueue(tx, 'entitlements.customer_deleted', { organization_id, customer_id })
}

type Billing = Pick<CustomerRow, 'billing_address' | 'tax_id' | 'tax_id_format'>

/** A tax number counts only together with the country that issued it: whenever either changes, both are looked at. */
export const changeBilling = (
  current: Billing,
  given: { billing_address?: z.output<typeof AddressInput> | null | undefined; tax_id?: string | null | undefined },
): { changes: Partial<CustomerRow>; problems: Invalid[] } => {
  const changes: Partial<CustomerRow> = {}
  const problems: Invalid[] = []
  if (given.billing_address === null && current.billing_address !== null)
    problems.push({ loc: ['body', 'billing_address'], msg: 'A billing address can be replaced, not removed.', type: 'value_error', input: null })
  if (given.billing_address) changes.billing_address = complete(given.billing_address)
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
        ? `This is not a tax number of ${country}.${given.tax_id === undefined ? ' The customer has it from before: send the new one along, or null to remove it.' : ''}`
        : 'A tax number needs a billing address: send billing_address.country along.',
      type: country ? 'invalid' : 'value_error',
      input: number,
    })
  return { changes, problems }
}

/** An address with every line, given or not. */
export const complete = ({ line1 = null, line2 = null, postal_code = null, city = null, state = null, country }: z.output<typeof AddressInput>): Address => ({
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
  msg: field === 'email' ? 'There is already a customer with this e-mail address.' : 'There is already a customer with this external id.',
  type: 'value_error',
  input,
})

const unique = async <T>(row: Pick<CustomerRow, 'email' | 'external_id'>, write: () => Promise<T>): Promise<T> => {
  try {
    return await write()
  } catch (error) {
    if (isTwin(error, 'customers_email')) throw new InvalidRequest(twin('email', row.email))
    if (isTwin(error, 'customers_external_id')) throw new InvalidRequest(twin('external_id', row.external_id))
    throw error
  }
}
