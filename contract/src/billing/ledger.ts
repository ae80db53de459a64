import { z } from 'zod'
import { merchant, named, operation, pageSize, resource, ResourceNotFound, timestamp, uuid } from '../kit/index.ts'

export const LedgerFactKind = named(
  'LedgerFactKind',
  z.enum([
    'order_billed',
    'order_voided',
    'payment_received',
    'refund_paid',
    'refund_reversed',
    'balance_adjusted',
    'dispute_withheld',
    'dispute_returned',
    'dispute_lost',
  ]),
)
export type LedgerFactKind = z.output<typeof LedgerFactKind>

export const LedgerAccount = named('LedgerAccount', z.enum(['processor', 'receivable', 'revenue', 'tax', 'customer_balance', 'disputed']))
export type LedgerAccount = z.output<typeof LedgerAccount>

export const LedgerEntry = resource('LedgerEntry', {
  account: LedgerAccount,
  amount: z.int().describe('Minor units. Debits are positive, credits negative.'),
})
export type LedgerEntry = z.output<typeof LedgerEntry>

/** A business fact in the ledger. Its entries sum to zero. */
export const LedgerPosting = resource('LedgerPosting', {
  id: uuid(),
  kind: LedgerFactKind,
  reference_id: uuid().describe('The order, payment, refund or dispute that was posted.'),
  at: timestamp().describe('When the fact occurred for the customer.'),
  recorded_at: timestamp().describe('When the fact was posted.'),
  currency: z.string(),
  entries: z.array(LedgerEntry),
})
export type LedgerPosting = z.output<typeof LedgerPosting>

export const listOrderLedgerEntries = operation({
  id: 'orders:ledger_entries',
  method: 'GET',
  path: '/v1/orders/{id}/ledger-entries',
  summary: 'List the ledger entries of an order',
  description:
    'The postings of the order, of its payments, refunds and disputes, oldest first. The entries of each posting sum to zero. An order with a large number of refunds has several pages.',
  access: merchant('orders:read'),
  costs: 'none',
  params: z.object({ id: uuid() }),
  query: z.object({ cursor: z.string().max(200).optional().describe('Continues after an earlier answer.'), limit: pageSize(100) }),
  returns: resource('OrderLedgerEntries', {
    items: z.array(LedgerPosting),
    balances: z
      .array(resource('LedgerBalance', { account: LedgerAccount, currency: z.string(), amount: z.int() }))
      .describe('The sum of each account over all postings of the order. Together they sum to zero.'),
    next_cursor: z.string().nullable().describe('Send it as `cursor` for the next page; null at the end.'),
  }),
  fails: [ResourceNotFound],
})
