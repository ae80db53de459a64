import { z } from 'zod'
import { failure, filter, merchant, NotPermitted, operation, page, pageQuery, resource, ResourceNotFound, sorting, uuid } from '../kit/index.ts'
import { OrderCustomer } from './orders.ts'
import { DisputeStatus, RefundDispute } from './refunds.ts'

export const DisputeCustomer = resource('DisputeCustomer', OrderCustomer.shape)

/** A dispute (chargeback): the payer has asked their bank to return the money of a payment. */
export const Dispute = resource('Dispute', {
  ...RefundDispute.shape,
  customer: DisputeCustomer,
  case_id: uuid().nullable().describe('Always null: this service has no support cases.'),
})
export type Dispute = z.output<typeof Dispute>

export const DisputeNotOpenError = failure('DisputeNotOpenError', 409, 'This dispute cannot be accepted: the bank is not waiting for an answer.')

const read = merchant(['disputes:read', 'disputes:write'])
const byId = z.object({ id: uuid() })

export const listDisputes = operation({
  id: 'disputes:list',
  method: 'GET',
  path: '/v1/disputes/',
  summary: 'List disputes',
  access: read,
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    order_id: filter(uuid()),
    status: filter(DisputeStatus),
    ...pageQuery,
    sorting: sorting('DisputeSortProperty', ['created_at', 'amount'], ['-created_at']),
  }),
  returns: page('DisputePage', Dispute),
  fails: [],
})

export const getDispute = operation({
  id: 'disputes:get',
  method: 'GET',
  path: '/v1/disputes/{id}',
  summary: 'Get a dispute',
  access: read,
  costs: 'none',
  params: byId,
  returns: Dispute,
  fails: [NotPermitted, ResourceNotFound],
})

export const acceptDispute = operation({
  id: 'disputes:accept',
  method: 'POST',
  path: '/v1/disputes/{id}/accept',
  summary: 'Accept a dispute',
  description:
    'Accepts the dispute instead of contesting it. The dispute is lost, and access to the purchase ends. Possible only while the bank waits for an answer. If the processor is slow, `status` changes later.',
  access: merchant('disputes:write'),
  costs: ['money', 'jobs'],
  params: byId,
  returns: Dispute,
  keptDays: 30,
  fails: [NotPermitted, ResourceNotFound, DisputeNotOpenError],
})
