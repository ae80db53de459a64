import { SearchKind, type AnyScope, type SearchHit } from '@bursar/contract'
import type { OrganizationActor, TenantScope, UserActor } from '../../../kernel/actors.ts'
import { isId } from '../../../kernel/ids.ts'
import { Secret, type Hasher } from '../../../kernel/secrets.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { chooseOne, permits, type Permission } from '../../organizations/index.ts'
import { findHits, type SearchTerms } from './search.sql.ts'

/** The rights that the operations need which list the resources of each kind. The search never finds more. */
const rights: Readonly<Record<SearchKind, { readonly permission: Permission; readonly scopes: readonly AnyScope[] }>> = {
  customer: { permission: 'customers:read', scopes: ['customers:read', 'customers:write'] },
  member: { permission: 'customers:read', scopes: ['members:read', 'members:write'] },
  order: { permission: 'sales:read', scopes: ['orders:read'] },
  subscription: { permission: 'sales:read', scopes: ['subscriptions:read', 'subscriptions:write'] },
  product: { permission: 'products:read', scopes: ['products:read', 'products:write'] },
  benefit: { permission: 'products:read', scopes: ['benefits:read', 'benefits:write'] },
  license_key: { permission: 'customers:read', scopes: ['license_keys:read', 'license_keys:write'] },
  refund: { permission: 'sales:read', scopes: ['refunds:read', 'refunds:write'] },
  payment: { permission: 'sales:read', scopes: ['payments:read'] },
  checkout: { permission: 'sales:read', scopes: ['checkouts:read', 'checkouts:write'] },
  discount: { permission: 'products:read', scopes: ['discounts:read', 'discounts:write'] },
  event: { permission: 'organization:manage', scopes: ['webhooks:read', 'webhooks:write'] },
  webhook_endpoint: { permission: 'organization:manage', scopes: ['webhooks:read', 'webhooks:write'] },
}

/** The shortest text that is looked up as a whole license key. */
const shortestKey = 12

/** Reads what a query may mean. A license key is looked up by its hash, and never compared with stored keys. */
export const termsOf = (query: string, hasher: Pick<Hasher, 'candidates'>): SearchTerms => {
  const text = query.toLowerCase()
  const [, end] = /^(?:\*{4}-)?([a-z0-9-]{6})$/.exec(text) ?? []
  const mayBeKey = query.length >= shortestKey && !/[\s@]/.test(query)
  return {
    exact: query,
    text,
    id: isId(text) ? text : null,
    key_hashes: mayBeKey ? hasher.candidates(new Secret(query)) : [],
    key_end: end === undefined ? null : `****-${end}`,
  }
}

/** Finds what a query means in one organization, among the kinds of resources that the caller may read. */
export const search = async (
  db: Db,
  hasher: Pick<Hasher, 'candidates'>,
  scope: TenantScope,
  actor: OrganizationActor | UserActor,
  query: { readonly organization_id: readonly string[]; readonly query: string; readonly kind: readonly SearchKind[]; readonly limit: number },
): Promise<{ items: SearchHit[] }> => {
  const organization_id = chooseOne(scope, query.organization_id)
  const kinds = SearchKind.options.filter(
    (kind) =>
      (query.kind.length === 0 || query.kind.includes(kind)) &&
      permits(scope, organization_id, rights[kind].permission) &&
      rights[kind].scopes.some((needed) => actor.scopes.has(needed)),
  )
  return { items: await findHits(db, scope, organization_id, kinds, termsOf(query.query, hasher), Math.min(query.limit, 20)) }
}
