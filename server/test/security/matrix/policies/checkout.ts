import { tokens, type Policy } from './shared.ts'

export const checkout: Readonly<Record<string, Policy>> = {
  'checkouts:list': {
    who: tokens,
    scopes: ['checkouts:read', 'checkouts:write'],
    ask: () => ({ path: '/v1/checkouts/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'checkouts:create': {
    who: tokens,
    scopes: ['checkouts:write'],
    ask: (t) => ({ path: '/v1/checkouts/', body: { products: [t.product_id], customer_id: t.customer_id, discount_id: t.discount_id } }),
    granted: 201,
    foreign: 'invalid',
    // The matrix also combines our tenant's product with another tenant's customer.
    nested: 'product_id',
  },
  'checkouts:get': {
    who: tokens,
    scopes: ['checkouts:read', 'checkouts:write'],
    ask: (t) => ({ path: `/v1/checkouts/${t.checkout_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'checkouts:update': {
    who: tokens,
    scopes: ['checkouts:write'],
    ask: (t) => ({ path: `/v1/checkouts/${t.checkout_id}`, body: { metadata: { changed: true } } }),
    granted: 200,
    foreign: 'absent',
  },
  'checkouts:client_get': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}` }), granted: 200 },
  'checkouts:client_update': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}`, body: { discount_code: 'NO-SUCH-CODE' } }),
    granted: [422, 'RequestValidationError'],
  },
  'checkouts:client_get_draft': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/draft` }), granted: 200 },
  'checkouts:client_save_draft': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/draft`, body: { fields: { cvc: '123' } } }),
    granted: [422, 'RequestValidationError'],
  },
  'checkouts:client_renew': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/renew` }),
    granted: [403, 'CheckoutNotRenewable'],
  },
  'checkouts:client_resume': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/resume` }), granted: 200 },
  'checkouts:client_confirm': {
    who: 'open',
    scopes: [],
    ask: (t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/confirm`, body: {} }),
    granted: [422, 'RequestValidationError'],
  },
  'checkout-links:list': {
    who: tokens,
    scopes: ['checkout_links:read', 'checkout_links:write'],
    ask: () => ({ path: '/v1/checkout-links/?limit=100&sorting=created_at' }),
    granted: 200,
  },
  'checkout-links:create': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: '/v1/checkout-links/', body: { payment_processor: 'stripe', products: [t.product_id], discount_id: t.discount_id } }),
    granted: 201,
    foreign: 'invalid',
    // The matrix also combines our tenant's product with another tenant's discount.
    nested: 'product_id',
  },
  'checkout-links:get': {
    who: tokens,
    scopes: ['checkout_links:read', 'checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}` }),
    granted: 200,
    foreign: 'absent',
  },
  'checkout-links:update': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}`, body: { label: 'Changed' } }),
    granted: 200,
    foreign: 'absent',
  },
  'checkout-links:delete': {
    who: tokens,
    scopes: ['checkout_links:write'],
    ask: (t) => ({ path: `/v1/checkout-links/${t.link_id}` }),
    granted: 204,
    foreign: 'absent',
  },
  'checkout-links:redirect': { who: 'open', scopes: [], ask: (t) => ({ path: `/v1/checkout-links/${t.link_secret}/redirect` }), granted: 302 },
}
