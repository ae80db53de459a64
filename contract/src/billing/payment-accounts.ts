import { z } from 'zod'
import { failure, merchant, named, NotPermitted, openAccess, operation, resource, ResourceNotFound, stamps, uuid, session } from '../kit/index.ts'

export const ProcessorEventRefused = failure('ProcessorEventRefused', 403, 'The signature of this event is invalid or too old for this payment account.')

export const receiveProcessorEvent = operation({
  id: 'payment-accounts:receive_event',
  method: 'POST',
  path: '/v1/payment-accounts/{organization_id}/{account_id}/events',
  summary: 'Receive an event of a payment processor',
  description: 'For the payment processor only. Each payment account has its own address and signs its events. An event that was received before is ignored.',
  access: openAccess(),
  costs: 'jobs',
  budget: 'processor_events',
  params: z.object({ organization_id: uuid(), account_id: uuid() }),
  body: z.record(z.string(), z.unknown()),
  returns: resource('ProcessorEventReceived', { received: z.literal(true) }),
  fails: [ResourceNotFound, ProcessorEventRefused],
})

/** The payment processor account that receives an organization's money. */
export const PaymentAccount = resource('PaymentAccount', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  processor: named('PaymentAccountProcessor', z.enum(['test', 'stripe'])).describe('`test` moves no money, and exists in the sandbox only.'),
  processor_account_id: z.string().nullable().describe('The id of the account at the processor.'),
  publishable_key: z.string().nullable().describe('Loads the payment form for buyers; not a secret.'),
  secret_key_hint: z.string().nullable().describe('The part of the secret key that identifies it. The key itself is never shown.'),
  webhook_secret_hint: z.string().nullable().describe('The part of the signing secret that identifies it. While it is null, events are rejected.'),
  events_url: z.string().describe('The address that receives the events of the processor.'),
})
export type PaymentAccount = z.output<typeof PaymentAccount>

const key = (kinds: string, example: string) =>
  z
    .string()
    .trim()
    .max(300)
    .regex(new RegExp(`^(${kinds})_(test|live)_[0-9A-Za-z]{8,}$`), `Give a key such as ${example}.`)

export const PaymentAccountConnect = resource('PaymentAccountConnect', {
  processor: z.literal('stripe').default('stripe'),
  secret_key: key('sk|rk', 'sk_test_…').describe('A secret or restricted key: of test mode in the sandbox, of live mode in production.'),
  publishable_key: key('pk', 'pk_test_…').describe('A key of the same account and mode.'),
  webhook_secret: z
    .string()
    .trim()
    .max(300)
    .regex(/^whsec_[0-9A-Za-z+/=]{8,}$/, 'Give the signing secret of the webhook endpoint, such as whsec_…')
    .nullish()
    .describe('The signing secret of the endpoint for `events_url`. Stays unchanged if absent.'),
})

export const PaymentAccountRefused = failure('PaymentAccountRefused', 400, "The processor rejected this key. Check it in the processor's dashboard.")

const ofOrganization = { path: '/v1/organizations/{id}/payment-account' as const, params: z.object({ id: uuid() }), returns: PaymentAccount }

export const getPaymentAccount = operation({
  id: 'payment-accounts:get',
  method: 'GET',
  ...ofOrganization,
  summary: 'Get the payment account of an organization',
  description: 'The account that receives new payments. Answers 404 until an account is connected; in the sandbox, until the first sale.',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  fails: [NotPermitted, ResourceNotFound],
})

export const connectPaymentAccount = operation({
  id: 'payment-accounts:connect',
  method: 'PUT',
  ...ofOrganization,
  summary: 'Connect a payment account',
  description:
    'Connects your own Stripe account. The key is tested, then stored encrypted. Connecting the same account again replaces its keys. Connecting another account sends new payments there; earlier payments stay with the account that took them. Tokens cannot use this operation: a person must have signed in within the last hour. The owners of the organization are notified by e-mail.',
  access: session('organizations:write', { fresh: true }),
  costs: ['mail', 'jobs'],
  body: PaymentAccountConnect,
  fails: [NotPermitted, PaymentAccountRefused, ResourceNotFound],
})
