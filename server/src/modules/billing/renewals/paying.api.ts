import { confirmPortalPayment } from '@bursar/contract'
import { multiStep } from '../../handlers.ts'
import { begin, proceed } from './paying.ts'

export const operations = [
  multiStep(confirmPortalPayment, {
    look: async ({ gateways }) => gateways.payments.preferred,
    begin: (tx, { actor, scope, params, body, platform }, processor) => begin(tx, scope, platform, processor, actor, params.id, body),
    proceed: (deps, { body }, intended) => proceed(deps, body.confirmation_token_id ?? null, intended),
  }),
]
