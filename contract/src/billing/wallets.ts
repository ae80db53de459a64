import { z } from 'zod'
import { NotPermitted, operation, page, pageQuery, portal, resource, ResourceNotFound, sorting, stamps, uuid } from '../kit/index.ts'

/** A customer's credit balance with one seller in one currency. */
export const CustomerWallet = resource('CustomerWallet', {
  ...stamps,
  id: uuid(),
  customer_id: uuid(),
  balance: z.int().describe('In minor units. A positive balance is applied to the next order; a negative balance is collected with it.'),
  currency: z.string(),
})
export type CustomerWallet = z.output<typeof CustomerWallet>

const enter = portal(['customer_portal:read', 'customer_portal:write'])

export const listPortalWallets = operation({
  id: 'customer_portal:wallets:list',
  method: 'GET',
  path: '/v1/customer-portal/wallets/',
  summary: 'List the balances',
  description: 'One for each currency that was used in billing.',
  access: enter,
  costs: 'none',
  query: z.object({ ...pageQuery, sorting: sorting('CustomerWalletSortProperty', ['created_at', 'balance'], ['-created_at']) }),
  returns: page('CustomerWalletPage', CustomerWallet),
  fails: [NotPermitted],
})

export const getPortalWallet = operation({
  id: 'customer_portal:wallets:get',
  method: 'GET',
  path: '/v1/customer-portal/wallets/{id}',
  summary: 'Get a balance',
  access: enter,
  costs: 'none',
  params: z.object({ id: uuid() }),
  returns: CustomerWallet,
  fails: [NotPermitted, ResourceNotFound],
})
