import { z } from 'zod'
import { failure, open, operation, resource, ResourceNotFound, uuid } from '../kit/index.ts'

export const ProcessorEventRefused = failure('ProcessorEventRefused', 403, 'This was not signed by the payment account it was sent to, or too long ago.')

export const receiveProcessorEvent = operation({
  id: 'payment-accounts:receive_event',
  method: 'POST',
  path: '/v1/payment-accounts/{organization_id}/{account_id}/events',
  summary: 'Receive an event of a payment processor',
  description:
    'For the processor alone: each payment account has this address of its own, and signs what it sends. An event that was received before changes nothing.',
  access: open(),
  params: z.object({ organization_id: uuid(), account_id: uuid() }),
  body: z.record(z.string(), z.unknown()),
  returns: resource('ProcessorEventReceived', { received: z.literal(true) }),
  fails: [ResourceNotFound, ProcessorEventRefused],
})
