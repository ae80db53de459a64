import {
  createExternalMember,
  createFlatMember,
  createMember,
  deleteExternalMember,
  deleteFlatExternalMember,
  deleteFlatMember,
  deleteMember,
  getExternalMember,
  getFlatExternalMember,
  getFlatMember,
  getMember,
  InvalidRequest,
  listCustomerMembers,
  listExternalCustomerMembers,
  listMembers,
  paginate,
  ResourceNotFound,
  updateExternalMember,
  updateFlatExternalMember,
  updateFlatMember,
  updateMember,
  type MemberRole,
  type MemberUpdate,
  type PageRequest,
} from '@bursar/contract'
import type { z } from 'zod'
import { within, type Reach } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import type { Naming } from '../customers/customers.sql.ts'
import { find as findCustomer, hold } from '../customers/customers.ts'
import { findCustomerOf, listMembers as list, type MemberNaming } from './members.sql.ts'
import { add, find, present, remove, update, type NewMember } from './members.ts'

type Listing = PageRequest & { sorting: readonly string[]; role?: MemberRole | undefined }

const listOf = async (db: Db, reach: Reach, naming: Naming, query: Listing) => {
  const { organization_id, id: customer_id } = await findCustomer(db, reach, naming)
  const there = within(organization_id, reach.organizations.get(organization_id)!, reach.phases.get(organization_id)!)
  const { items, total, next_cursor } = await list(db, there, { ...query, customer_id })
  return paginate(query, items.map(present), total, next_cursor)
}
const addTo = async (
  tx: Tx,
  reach: Reach,
  naming: Naming,
  body: { email: string; name?: string | null | undefined; external_id?: string | null | undefined; role: NewMember['role'] },
) => present(await add(tx, await hold(tx, reach, naming), { ...body, name: body.name ?? null, external_id: body.external_id ?? null }))
const get = async (db: Db, reach: Reach, naming: Naming, member: MemberNaming) => present(await find(db, await findCustomer(db, reach, naming), member))
const updateOf = async (tx: Tx, reach: Reach, naming: Naming, member: MemberNaming, body: z.output<typeof MemberUpdate>) => {
  const customer = await hold(tx, reach, naming)
  return present(await update(tx, customer, await find(tx, customer, member), body))
}
const removeFrom = async (tx: Tx, reach: Reach, naming: Naming, member: MemberNaming) => {
  const customer = await hold(tx, reach, naming)
  await remove(tx, customer, await find(tx, customer, member))
}

/** Older addresses leave out whose member it is: the member says so, or the query does. */
const customerOf = async (db: Db, reach: Reach, member_id: string): Promise<Naming> => {
  const customer = await findCustomerOf(db, reach, member_id)
  if (!customer) throw new ResourceNotFound()
  return customer
}
const customerNamed = (
  from: 'body' | 'query',
  { customer_id, external_customer_id }: { customer_id?: string | null | undefined; external_customer_id?: string | null | undefined },
): Naming => {
  if (customer_id && !external_customer_id) return { id: customer_id }
  if (external_customer_id && !customer_id) return { external_id: external_customer_id }
  throw new InvalidRequest({
    loc: [from, 'customer_id'],
    msg: `Name the customer once, by customer_id or by external_customer_id: received ${customer_id ? 'both' : 'neither'}.`,
    type: 'value_error',
  })
}

export const operations = [
  read(listMembers, async (db, { reach, query }) => {
    const { items, total, next_cursor } = await list(db, confine(reach, 'customers:read'), query)
    return paginate(query, items.map(present), total, next_cursor)
  }),
  read(listCustomerMembers, (db, { reach, params, query }) => listOf(db, reach, params, query)),
  read(listExternalCustomerMembers, (db, { reach, params, query }) => listOf(db, reach, params, query)),
  write(createMember, (tx, { reach, params, body }) => addTo(tx, reach, params, body)),
  write(createExternalMember, (tx, { reach, params, body }) => addTo(tx, reach, params, body)),
  read(getMember, (db, { reach, params: { id, member_id } }) => get(db, reach, { id }, { id: member_id })),
  read(getExternalMember, (db, { reach, params: { external_id, member_external_id } }) => get(db, reach, { external_id }, { external_id: member_external_id })),
  write(updateMember, (tx, { reach, params: { id, member_id }, body }) => updateOf(tx, reach, { id }, { id: member_id }, body)),
  write(updateExternalMember, (tx, { reach, params: { external_id, member_external_id }, body }) =>
    updateOf(tx, reach, { external_id }, { external_id: member_external_id }, body),
  ),
  write(deleteMember, (tx, { reach, params: { id, member_id } }) => removeFrom(tx, reach, { id }, { id: member_id })),
  write(deleteExternalMember, (tx, { reach, params: { external_id, member_external_id } }) =>
    removeFrom(tx, reach, { external_id }, { external_id: member_external_id }),
  ),

  write(createFlatMember, (tx, { reach, body: { customer_id, external_customer_id, ...body } }) =>
    addTo(tx, reach, customerNamed('body', { customer_id, external_customer_id }), body),
  ),
  read(getFlatMember, async (db, { reach, params }) => get(db, reach, await customerOf(db, reach, params.id), params)),
  write(updateFlatMember, async (tx, { reach, params, body }) => updateOf(tx, reach, await customerOf(tx, reach, params.id), params, body)),
  write(deleteFlatMember, async (tx, { reach, params }) => removeFrom(tx, reach, await customerOf(tx, reach, params.id), params)),
  read(getFlatExternalMember, (db, { reach, params, query }) => get(db, reach, customerNamed('query', query), params)),
  write(updateFlatExternalMember, (tx, { reach, params, query, body }) => updateOf(tx, reach, customerNamed('query', query), params, body)),
  write(deleteFlatExternalMember, (tx, { reach, params, query }) => removeFrom(tx, reach, customerNamed('query', query), params)),
]
