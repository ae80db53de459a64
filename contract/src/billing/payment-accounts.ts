import { z } from 'zod'
import { failure, merchant, named, NotPermitted, open, operation, resource, ResourceNotFound, stamps, uuid } from '../kit/index.ts'

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

/** Where an organization's money goes. */
export const PaymentAccount = resource('PaymentAccount', {
  ...stamps,
  id: uuid(),
  organization_id: uuid(),
  processor: named('PaymentAccountProcessor', z.enum(['test', 'stripe'])).describe('`test` moves no money, and exists in the sandbox alone.'),
  processor_account_id: z.string().nullable().describe('What the processor calls the account.'),
  publishable_key: z.string().nullable().describe('Opens the form in which buyers pay; no secret.'),
  secret_key_hint: z.string().nullable().describe('Enough of the secret key to recognise it by. The key itself is never shown.'),
  webhook_secret_hint: z.string().nullable().describe('The same of the signing secret; null while none is set, and events are refused.'),
  events_url: z.string().describe('Where the processor sends its events.'),
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
  secret_key: key('sk|rk', 'sk_test_…').describe('Secret, or restricted. Of test mode in the sandbox, live in production.'),
  publishable_key: key('pk', 'pk_test_…').describe('Of the same account and mode.'),
  webhook_secret: z
    .string()
    .trim()
    .max(300)
    .regex(/^whsec_[0-9A-Za-z+/=]{8,}$/, 'Give the signing secret of the endpoint: whsec_…')
    .nullish()
    .describe('What the endpoint for `events_url` signs with. Absent: as it was.'),
})

export const PaymentAccountRefused = failure('PaymentAccountRefused', 400, 'The processor does not accept this key.')

const ofOrganization = { path: '/v1/organizations/{id}/payment-account' as const, params: z.object({ id: uuid() }), returns: PaymentAccount }

export const getPaymentAccount = operation({
  id: 'payment-accounts:get',
  method: 'GET',
  ...ofOrganization,
  summary: 'Get the payment account of an organization',
  description: 'Where its money goes from now on. Absent until one is connected, or in the sandbox until something is first sold.',
  access: merchant(['organizations:read', 'organizations:write']),
  fails: [NotPermitted, ResourceNotFound],
})

export const connectPaymentAccount = operation({
  id: 'payment-accounts:connect',
  method: 'PUT',
  ...ofOrganization,
  summary: 'Connect a payment account',
  description:
    'Your own account at Stripe. The key is tried before it is stored, sealed. Connecting the same account again changes its keys; connecting another one sends new payments there, while what was paid before stays with the account that took it.',
  access: merchant('organizations:write'),
  body: PaymentAccountConnect,
  fails: [NotPermitted, PaymentAccountRefused, ResourceNotFound],
})
