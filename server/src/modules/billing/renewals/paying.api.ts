import { confirmPortalPayment } from '@bursar/contract'
import { steps } from '../../handlers.ts'
import { begin, proceed } from './paying.ts'

export const operations = [
  steps(confirmPortalPayment, {
    look: async ({ gateways }) => gateways.payments.preferred,
    begin: (tx, { actor, reach, params, body, platform }, processor) => begin(tx, reach, platform, processor, actor, params.id, body),
    proceed: (means, { body }, intended) => proceed(means, body.confirmation_token_id ?? null, intended),
  }),
]
