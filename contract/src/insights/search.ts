import { z } from 'zod'
import { merchant, named, operation, pageSize, resource, filter, uuid, timestamp } from '../kit/index.ts'

export const SearchKind = named(
  'SearchKind',
  z.enum([
    'customer',
    'member',
    'order',
    'subscription',
    'product',
    'benefit',
    'license_key',
    'refund',
    'payment',
    'checkout',
    'discount',
    'event',
    'webhook_endpoint',
  ]),
)
export type SearchKind = z.output<typeof SearchKind>

export const SearchHit = resource('SearchHit', {
  kind: SearchKind,
  id: uuid(),
  organization_id: uuid(),
  title: z.string().describe('A name, an address, an invoice number or the displayed end of a key.'),
  detail: z.string().nullable().describe('More about it, such as the status and the address of the customer.'),
  customer_id: uuid().nullable(),
  created_at: timestamp(),
  matched: z.enum(['id', 'email', 'name', 'external_id', 'invoice_number', 'key', 'key_end']).describe('The field that matches the query.'),
})
export type SearchHit = z.output<typeof SearchHit>

export const searchOrganization = operation({
  id: 'search:find',
  method: 'GET',
  path: '/v1/search',
  summary: 'Search an organization',
  description:
    'Finds customers by the beginning of a name or an address, orders by invoice number, products by the beginning of a name, and license keys by the whole key or its displayed end. An id finds the resource with this id. Kinds that the caller may not read are left out.',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    query: z.string().trim().min(1).max(256),
    kind: filter(SearchKind).describe('Only these kinds.'),
    limit: pageSize(5, 20).describe('Results of each kind.'),
  }),
  returns: resource('SearchResults', { items: z.array(SearchHit).describe('Sorted by kind, exact matches first.') }),
  fails: [],
})
