import { createPolar } from 'polar-sdk/2026-04'
import { Polar } from 'polar-sdk-strict'

/** Names and versions of the two official clients that are tested, for reports. */
export const clients = { current: '@polar-sh/sdk 1.0.1 /2026-04', strict: '@polar-sh/sdk 0.47.1' } as const
export type ClientName = keyof typeof clients

export const current = (baseUrl: string, accessToken: string) => createPolar({ baseUrl, accessToken })
/** Creates the older client. It parses every answer with its own schemas, and throws if an answer does not match. */
export const strict = (serverURL: string, accessToken: string) => new Polar({ serverURL, accessToken })

/** Webhook kinds that the older client does not know and refuses to parse. */
const unheard: readonly string[] = [
  'discount.created',
  'discount.updated',
  'discount.deleted',
  'subscription.cycled',
  'subscription.paused',
  'subscription.resumed',
]

/**
 * True if the older client cannot read an event. Either the event type is newer than the client, or its order is a
 * draft without an invoice number.
 */
export const isBeyond = ({ type, data }: { readonly type: string; readonly data: unknown }): boolean =>
  unheard.includes(type) || (type.startsWith('order.') && (data as { status: string }).status === 'draft')

/** Operations that a client cannot call, each with the reason. They are called by plain HTTP instead. */
export const uncallable: Record<ClientName, Record<string, string>> = {
  current: {
    'GET /v1/members': 'has no method',
    'GET /v1/customer-seats/{}': 'has no method',
    'GET /v1/benefit-grants/{}': 'has no method',
    'GET /v1/oauth2/authorize': 'sends no parameters',
    'POST /v1/oauth2/token': 'sends no parameters',
    'POST /v1/oauth2/revoke': 'sends no parameters',
    'POST /v1/oauth2/introspect': 'sends no parameters',
  },
  strict: {
    'GET /v1/oauth2/authorize': 'sends no parameters',
    'POST /v1/oauth2/register': 'takes 200 for the only success, and RFC 7591 says 201',
    'DELETE /v1/oauth2/register/{}': 'wants a body where the contract has none',
    ...Object.fromEntries(
      [
        'DELETE /v1/products/{}',
        'GET /v1/customers/{}/payment-methods',
        'GET /v1/customers/external/{}/payment-methods',
        'GET /v1/customers/{}/members',
        'POST /v1/customers/{}/members',
        'GET /v1/customers/external/{}/members',
        'POST /v1/customers/external/{}/members',
        'GET /v1/customers/{}/members/{}',
        'GET /v1/customers/external/{}/members/{}',
        'PATCH /v1/customers/{}/members/{}',
        'PATCH /v1/customers/external/{}/members/{}',
        'DELETE /v1/customers/{}/members/{}',
        'DELETE /v1/customers/external/{}/members/{}',
        'POST /v1/disputes/{}/accept',
        'GET /v1/orders/{}/receipt',
        'GET /v1/customer-portal/orders/{}/receipt',
        'GET /v1/benefits/{}/files',
        'GET /v1/customer-seats/{}',
        'GET /v1/benefit-grants/{}',
        'POST /v1/orders',
        'POST /v1/orders/{}/finalize',
        'POST /v1/license-keys/{}/rotate',
        'POST /v1/customer-portal/license-keys/{}/rotate',
      ].map((operation) => [operation, 'is older than this operation']),
    ),
  },
}
