import { z } from 'zod'
import { failure, filter, merchant, NotPermitted, operation, page, pageQuery, resource, ResourceNotFound, sorting, uuid } from '../kit/index.ts'
import { OrderCustomer } from './orders.ts'
import { DisputeStatus, RefundDispute } from './refunds.ts'

export const DisputeCustomer = resource('DisputeCustomer', OrderCustomer.shape)

/** A payer has asked their bank for the money back. */
export const Dispute = resource('Dispute', {
  ...RefundDispute.shape,
  customer: DisputeCustomer,
  case_id: uuid().nullable().describe('Always null: there are no support cases here.'),
})
export type Dispute = z.output<typeof Dispute>

export const DisputeNotOpenError = failure('DisputeNotOpenError', 409, 'This dispute waits for no answer: there is nothing to accept.')

const read = merchant(['disputes:read', 'disputes:write'])
const byId = z.object({ id: uuid() })

export const listDisputes = operation({
  id: 'disputes:list',
  method: 'GET',
  path: '/v1/disputes/',
  summary: 'List disputes',
  access: read,
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
    'Gives the money up instead of answering: the dispute is lost, and what was bought ends. Only while the bank waits for an answer. Where the processor takes its time, `status` says so, and changes later.',
  access: merchant('disputes:write'),
  params: byId,
  returns: Dispute,
  keptDays: 30,
  fails: [NotPermitted, ResourceNotFound, DisputeNotOpenError],
})
