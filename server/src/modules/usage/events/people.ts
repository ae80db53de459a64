import type { EventCreate, Invalid } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import { newId } from '../../../kernel/ids.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import { inParts } from '../calc/parts.ts'
import { insertMembers, insertSubjects, linkToCustomers, resolveNamed, type Named, type NewMember, type NewSubject, type Resolved } from './ingest.sql.ts'

/** Compares texts by their code units. All requests sort their rows in this way, because the sequence of locks must be the same. */
export const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** An event of the request with its path in the body. */
export interface Sent {
  readonly path: readonly (string | number)[]
  readonly event: EventCreate
}

/** Returns the place of a field of an event in the request. */
export const placeOf = (path: Sent['path'], ...field: (string | number)[]): (string | number)[] => ['body', ...path, ...field]

/** The customer and the member of an event, by the rows that the event references. */
export interface Person {
  readonly subject_id: string
  readonly member_ref: string | null
  readonly customer_id: string | null
  /** True if the customer has no event yet. */
  readonly is_first: boolean
  /** The time of the customer's test clock. Null for the system clock. */
  readonly now_at: Date | null
}

const namedBy = (event: EventCreate): Named => ({
  customer_id: 'customer_id' in event ? event.customer_id : null,
  external_customer_id: 'external_customer_id' in event ? event.external_customer_id : null,
  member_id: ('member_id' in event ? event.member_id : null) ?? null,
  external_member_id: ('external_member_id' in event ? event.external_member_id : null) ?? null,
})

/** Returns one text for the customer and the member that an event names. Ids never contain the separator. */
const keyOf = (event: EventCreate): string =>
  'customer_id' in event
    ? `id\0${event.customer_id}\0${event.member_id ?? ''}`
    : event.external_member_id == null
      ? `external\0${event.external_customer_id}`
      : `external\0${event.external_customer_id}\0${event.external_member_id}`

/**
 * Finds the customer and the member of each event, in the order of the events. Creates the rows that events reference.
 * Adds a problem for each event whose customer or member does not exist in the organization.
 */
export const resolvePeople = async (tx: Tx, scope: TenantScope, organization_id: string, sent: readonly Sent[], problems: Invalid[]): Promise<Person[]> => {
  const indexes = new Map<string, number>()
  const named: Named[] = []
  const indexOf = sent.map(({ event }) => {
    const key = keyOf(event)
    const known = indexes.get(key)
    if (known !== undefined) return known
    indexes.set(key, named.length)
    return named.push(namedBy(event)) - 1
  })
  const resolve = async () => {
    const parts: Resolved[][] = []
    for (const part of inParts(named)) parts.push((await resolveNamed(tx, scope, organization_id, part)).toSorted((a, b) => a.at - b.at))
    return parts.flat()
  }
  let resolved = await resolve()
  sent.forEach(({ path, event }, index) => refuseStrangers(path, event, resolved[indexOf[index]!]!, problems))
  if (problems.length > 0) return []

  // A customer or a member may be created between two of these statements. Events then belong to its own row, which may be missing.
  for (;;) {
    const subjects = newSubjects(tx, named, resolved)
    const members = subjects.length > 0 ? [] : newMembers(tx, named, resolved)
    if (subjects.length === 0 && members.length === 0) break
    for (const part of inParts(subjects)) await insertSubjects(tx, organization_id, part)
    for (const part of inParts(members)) await insertMembers(tx, organization_id, part)
    resolved = await resolve()
  }
  const links = resolved.flatMap(({ customer_id, unknown_subject_id: id }) => (customer_id === null || id === null ? [] : [{ id, customer_id }]))
  // Subjects are locked in the sequence of their ids, also over several statements.
  for (const part of inParts(links.toSorted((a, b) => compareTexts(a.id, b.id)))) await linkToCustomers(tx, organization_id, part)
  const people = resolved.map((one): Person => ({
    subject_id: subjectOf(one),
    member_ref: one.member_ref,
    customer_id: one.customer_id,
    is_first: one.is_first,
    now_at: one.now_at,
  }))
  return indexOf.map((index) => people[index]!)
}

const subjectOf = ({ customer_id, unknown_subject_id }: Resolved): string => (customer_id ?? unknown_subject_id)!

const refuseStrangers = (path: Sent['path'], event: EventCreate, { customer_id, member_id }: Resolved, problems: Invalid[]): void => {
  if (!('customer_id' in event)) return
  if (customer_id === null)
    problems.push({
      loc: placeOf(path, 'customer_id'),
      msg: 'This organization has no customer with this id. Send the id of an existing customer, or your own id as external_customer_id.',
      type: 'value_error',
      input: event.customer_id,
    })
  else if (event.member_id != null && member_id === null)
    problems.push({
      loc: placeOf(path, 'member_id'),
      msg: 'This customer has no member with this id. Send the id of one of its members, or leave member_id out.',
      type: 'value_error',
      input: event.member_id,
    })
}

/** Returns the rows in the sequence of their keys. */
const inSequence = <T>(rows: ReadonlyMap<string, T>): T[] => [...rows].toSorted(([a], [b]) => compareTexts(a, b)).map(([, row]) => row)

/** Returns the subjects that do not exist yet. The subject of a customer has the id of that customer. */
const newSubjects = (tx: Tx, named: readonly Named[], resolved: readonly Resolved[]): NewSubject[] => {
  const subjects = new Map<string, NewSubject>()
  for (const [index, { customer_id, has_subject, unknown_subject_id }] of resolved.entries()) {
    const { external_customer_id } = named[index]!
    if (customer_id !== null) {
      if (!has_subject) subjects.set(customer_id, { id: customer_id, customer_id, external_id: null })
    } else if (unknown_subject_id === null && !subjects.has(`external ${external_customer_id!}`))
      subjects.set(`external ${external_customer_id!}`, { id: newId(tx.clock.wall()), customer_id: null, external_id: external_customer_id })
  }
  return inSequence(subjects)
}

/** Returns the rows of members that do not exist yet. The row of a member has the id of that member. */
const newMembers = (tx: Tx, named: readonly Named[], resolved: readonly Resolved[]): NewMember[] => {
  const members = new Map<string, NewMember>()
  for (const [index, one] of resolved.entries()) {
    const { external_member_id } = named[index]!
    if (one.member_ref !== null || (one.member_id === null && external_member_id === null)) continue
    const subject_id = subjectOf(one)
    if (one.member_id !== null) members.set(one.member_id, { id: one.member_id, subject_id, member_id: one.member_id, external_id: null })
    else members.set(`${subject_id} ${external_member_id!}`, { id: newId(tx.clock.wall()), subject_id, member_id: null, external_id: external_member_id })
  }
  return inSequence(members)
}
