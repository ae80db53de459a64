import { inWallTime } from '../../../platform/clocks.sql.ts'
import { addPortalPaymentMethod, confirmPortalPaymentMethod, deletePortalPaymentMethod, getPortalPaymentForm } from '@bursar/contract'
import { job, read, multiStep, write } from '../../handlers.ts'
import { allow } from '../../customers/index.ts'
import { findLivingOrganization } from '../../organizations/index.ts'
import { publishableKeyOf } from '../payments/accounts.sql.ts'
import { begin, beginConfirming, follow, forget, methodAdded, proceed, proceedConfirming, deletePaymentMethod } from './methods.ts'

export const operations = [
  read(getPortalPaymentForm, async (db, { actor }) => {
    allow(actor.role, 'billing:read')
    const { id, default_presentment_currency: currency } = (await findLivingOrganization(db, { id: actor.organization_id }))!
    return { publishable_key: await publishableKeyOf(db, id), currency }
  }),
  multiStep(addPortalPaymentMethod, {
    look: async ({ gateways }) => gateways.payments.preferred,
    begin: (tx, { actor, scope, body, platform }, processor) => begin(tx, scope, platform, processor, actor, body),
    proceed: (deps, { body }, intended) => proceed(deps, body.confirmation_token_id, intended),
  }),
  multiStep(confirmPortalPaymentMethod, {
    begin: (tx, { actor, scope, body }) => beginConfirming(inWallTime(tx), scope, actor, body),
    proceed: (deps, _, intended) => proceedConfirming(deps, intended),
  }),
  write(deletePortalPaymentMethod, (tx, { actor, scope, params }) => deletePaymentMethod(tx, scope, actor, params.id)),
]

export const jobs = [job('billing.method_added', methodAdded), job('billing.follow_method', follow), job('billing.forget_method', forget)]
