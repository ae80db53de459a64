import { addPortalPaymentMethod, confirmPortalPaymentMethod, deletePortalPaymentMethod, getPortalPaymentForm } from '@bursar/contract'
import { job, read, steps, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { publishableKeyOf } from '../payments/accounts.sql.ts'
import { begin, beginConfirming, follow, forget, methodAdded, proceed, proceedConfirming, remove } from './methods.ts'

export const operations = [
  read(getPortalPaymentForm, async (db, { actor }) => {
    allow(actor.role, 'billing:read')
    const { id, default_presentment_currency: currency } = (await findLivingOrganization(db, { id: actor.organization_id }))!
    return { publishable_key: await publishableKeyOf(db, id), currency }
  }),
  steps(addPortalPaymentMethod, {
    look: async ({ gateways }) => gateways.payments.preferred,
    begin: (tx, { actor, reach, body, platform }, processor) => begin(tx, reach, platform, processor, actor, body),
    proceed: (means, { body }, intended) => proceed(means, body.confirmation_token_id, intended),
  }),
  steps(confirmPortalPaymentMethod, {
    begin: (tx, { actor, reach, body }) => beginConfirming(tx, reach, actor, body),
    proceed: (means, _, intended) => proceedConfirming(means, intended),
  }),
  write(deletePortalPaymentMethod, (tx, { actor, reach, params }) => remove(tx, reach, actor, params.id)),
]

export const jobs = [job('billing.method_added', methodAdded), job('billing.follow_method', follow), job('billing.forget_method', forget)]
