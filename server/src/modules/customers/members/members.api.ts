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
import { within, type TenantScope } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { read, write } from '../../handlers.ts'
import { confine } from '../../organizations/index.ts'
import type { Naming } from '../records/customers.sql.ts'
import { findCustomer, requireLockedCustomer } from '../records/customers.ts'
import { findCustomerOf, listMembers as list, type MemberNaming } from '../records/members.sql.ts'
import * as members from './members.ts'
import type { NewMember } from './members.ts'

type Listing = PageRequest & { sorting: readonly string[]; role?: MemberRole | undefined }

const listOf = async (db: Db, scope: TenantScope, naming: Naming, query: Listing) => {
  const { organization_id, id: customer_id } = await findCustomer(db, scope, naming)
  const there = within(organization_id, scope.organizations.get(organization_id)!, scope.phases.get(organization_id)!)
  const { items, total, next_cursor } = await list(db, there, { ...query, customer_id })
  return paginate(query, items.map(members.presentMember), total, next_cursor)
}
const addTo = async (
  tx: Tx,
  scope: TenantScope,
  naming: Naming,
  body: { email: string; name?: string | null | undefined; external_id?: string | null | undefined; role: NewMember['role'] },
) =>
  members.presentMember(
    await members.addMember(tx, await requireLockedCustomer(tx, scope, naming), { ...body, name: body.name ?? null, external_id: body.external_id ?? null }),
  )
const get = async (db: Db, scope: TenantScope, naming: Naming, member: MemberNaming) =>
  members.presentMember(await members.requireMember(db, await findCustomer(db, scope, naming), member))
const updateOf = async (tx: Tx, scope: TenantScope, naming: Naming, member: MemberNaming, body: z.output<typeof MemberUpdate>) => {
  const customer = await requireLockedCustomer(tx, scope, naming)
  return members.presentMember(await members.updateMember(tx, customer, await members.requireMember(tx, customer, member), body))
}
const removeFrom = async (tx: Tx, scope: TenantScope, naming: Naming, member: MemberNaming) => {
  const customer = await requireLockedCustomer(tx, scope, naming)
  await members.deleteMember(tx, customer, await members.requireMember(tx, customer, member))
}

/** Finds the customer of a member, for legacy endpoints whose path contains no customer. */
const customerOf = async (db: Db, scope: TenantScope, member_id: string): Promise<Naming> => {
  const customer = await findCustomerOf(db, scope, member_id)
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
    msg: `Give either customer_id or external_customer_id: received ${customer_id ? 'both' : 'neither'}.`,
    type: 'value_error',
  })
}

export const operations = [
  read(listMembers, async (db, { scope, query }) => {
    const { items, total, next_cursor } = await list(db, confine(scope, 'customers:read'), query)
    return paginate(query, items.map(members.presentMember), total, next_cursor)
  }),
  read(listCustomerMembers, (db, { scope, params, query }) => listOf(db, scope, params, query)),
  read(listExternalCustomerMembers, (db, { scope, params, query }) => listOf(db, scope, params, query)),
  write(createMember, (tx, { scope, params, body }) => addTo(tx, scope, params, body)),
  write(createExternalMember, (tx, { scope, params, body }) => addTo(tx, scope, params, body)),
  read(getMember, (db, { scope, params: { id, member_id } }) => get(db, scope, { id }, { id: member_id })),
  read(getExternalMember, (db, { scope, params: { external_id, member_external_id } }) => get(db, scope, { external_id }, { external_id: member_external_id })),
  write(updateMember, (tx, { scope, params: { id, member_id }, body }) => updateOf(tx, scope, { id }, { id: member_id }, body)),
  write(updateExternalMember, (tx, { scope, params: { external_id, member_external_id }, body }) =>
    updateOf(tx, scope, { external_id }, { external_id: member_external_id }, body),
  ),
  write(deleteMember, (tx, { scope, params: { id, member_id } }) => removeFrom(tx, scope, { id }, { id: member_id })),
  write(deleteExternalMember, (tx, { scope, params: { external_id, member_external_id } }) =>
    removeFrom(tx, scope, { external_id }, { external_id: member_external_id }),
  ),

  write(createFlatMember, (tx, { scope, body: { customer_id, external_customer_id, ...body } }) =>
    addTo(tx, scope, customerNamed('body', { customer_id, external_customer_id }), body),
  ),
  read(getFlatMember, async (db, { scope, params }) => get(db, scope, await customerOf(db, scope, params.id), params)),
  write(updateFlatMember, async (tx, { scope, params, body }) => updateOf(tx, scope, await customerOf(tx, scope, params.id), params, body)),
  write(deleteFlatMember, async (tx, { scope, params }) => removeFrom(tx, scope, await customerOf(tx, scope, params.id), params)),
  read(getFlatExternalMember, (db, { scope, params, query }) => get(db, scope, customerNamed('query', query), params)),
  write(updateFlatExternalMember, (tx, { scope, params, query, body }) => updateOf(tx, scope, customerNamed('query', query), params, body)),
  write(deleteFlatExternalMember, (tx, { scope, params, query }) => removeFrom(tx, scope, customerNamed('query', query), params)),
]
