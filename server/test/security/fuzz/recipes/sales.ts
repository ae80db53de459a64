import {
  addPortalPaymentMethod,
  confirmClientCheckout,
  createCheckout,
  createOrder,
  createProduct,
  generateInvoice,
  listDisputes,
  listDownloadables,
  listOrders,
} from '@bursar/contract'
import { createBenefit } from '../../../../src/modules/catalog/index.ts'
import { createCustomer } from '../../../../src/modules/customers/index.ts'
import { grantByHand } from '../../../../src/modules/entitlements/index.ts'
import { findAccountAnywhere, openAccount } from '../../../../src/modules/billing/payments/attempts.sql.ts'
import { tokenIn } from '../../../harness/teams.ts'
import { unique } from '../../matrix/policies/shared.ts'
import type { Policy, Target } from '../../matrix/policy.ts'
import type { Recipe } from './recipes.ts'
import { sessionHeaders, type Stage, type Tenant } from '../stage.ts'

const berlin = { country: 'DE' as const, line1: 'Torstraße 1', line2: null, postal_code: '10119', city: 'Berlin', state: null }
const billed = { billing_name: 'Ada', billing_address: berlin } as const
const laterThan = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString()

/** Takes resources of the tenant, but asks for something else than the matrix does. */
const instead = (ask: Policy['ask']): Recipe => ({
  make: async ({ seeds }, { organization, people }) => {
    const target = await seeds.furnish(organization.id, people.owner.id, people.admin.id, { ask })
    return () => ask(target)
  },
})
/** The same with resources of the customer that the portal sessions belong to. */
const insteadInPortal = (ask: Policy['ask']): Recipe => ({
  make: async (_, { crew }) => {
    const target = await crew.ofCrew({ ask })
    return () => ask(target)
  },
})

const clientOf = async ({ world }: Stage, { organization }: Tenant) => world.client({ token: (await organization.token()).secret })

/** Sells a product for 29.00 through a checkout. */
const sell = async (stage: Stage, tenant: Tenant, confirmation_token_id: string) => {
  const api = await clientOf(stage, tenant)
  const product = await api.call(createProduct, {
    body: { name: 'Guide', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }], organization_id: null },
  })
  const { id, client_secret } = await api.call(createCheckout, { body: { products: [product.id] } })
  const body = { customer_email: `buyer-${unique()}@people.test`, customer_billing_address: { country: 'DE' as const }, confirmation_token_id }
  return { api, id, client_secret, body, confirm: () => stage.world.client().call(confirmClientCheckout, { params: { client_secret }, body }) }
}

/** Creates a paid order with everything that an invoice needs. */
const invoiceable = async ({ seeds }: Stage, customer: { organization_id: string; id: string }) => {
  const order = await seeds.sales.order(customer, billed)
  const payment = await seeds.sales.payment(customer, { order_id: order.id, intent_id: `intent-${order.id}` })
  const refund = await seeds.sales.refund(order, payment)
  return { order, refund }
}

const newCustomer = ({ world, seeds }: Stage, { organization }: Tenant) =>
  world.transact((tx) => createCustomer(tx, seeds.inside(organization.id), { email: `buyer-${unique()}@people.test` }))
const crewCustomer = ({ organization, crew }: Tenant) => ({ organization_id: organization.id, id: crew.customer_id })

/** Adds a card to the customer that the portal sessions belong to. */
const addCard = async ({ world }: Stage, { portalOf }: Tenant['crew'], confirmation_token_id: string, set_default: boolean) => {
  const { authorization } = await portalOf('customer')
  const body = { confirmation_token_id, set_default, return_url: 'https://shop.example/portal' }
  return world.client({ token: authorization.slice('Bearer '.length) }).call(addPortalPaymentMethod, { body })
}

const invitation = async ({ seeds, work }: Stage, { organization, crew }: Tenant): Promise<string> => {
  await seeds.seedSeats(organization.id, crew.customer_id)
  return tokenIn(await work.mailed('mail.seat_invitation'))
}

const licenseKey = (path: string, more: (target: Target) => object = () => ({})): Recipe =>
  insteadInPortal((t) => ({ path: `/v1/customer-portal/license-keys/${path}`, body: { key: t.license_key, organization_id: t.organization_id, ...more(t) } }))

export const salesRecipes: Readonly<Record<string, Recipe>> = {
  'test-clocks:advance': instead((t) => ({ path: `/v1/test-clocks/${t.test_clock_id}/advance`, body: { to: laterThan(3) } })),
  'subscriptions:preview': instead((t) => ({ path: `/v1/subscriptions/${t.seated_id}/preview`, body: { seats: 12 } })),
  'customer_portal:subscriptions:preview': {
    make: async (stage, { organization, crew }) => {
      await addCard(stage, crew, 'tok_visa', true)
      const { seated_id } = await stage.seeds.seedSeats(organization.id, crew.customer_id)
      return () => ({ path: `/v1/customer-portal/subscriptions/${seated_id}/preview`, body: { seats: 12 } })
    },
  },
  'customer_portal:subscriptions:update': insteadInPortal((t) => ({
    path: `/v1/customer-portal/subscriptions/${t.subscription_id}`,
    body: { cancel_at_period_end: true },
  })),
  'customer-seats:get_claim_info': {
    make: async (stage, tenant) => {
      const token = await invitation(stage, tenant)
      return () => ({ path: `/v1/customer-seats/claim/${token}` })
    },
  },
  'customer-seats:claim_seat': {
    make: async (stage, tenant) => {
      const invitation_token = await invitation(stage, tenant)
      return () => ({ path: '/v1/customer-seats/claim', body: { invitation_token } })
    },
  },
  'orders:finalize': {
    make: async (stage, tenant) => {
      const api = await clientOf(stage, tenant)
      const product = await api.call(createProduct, {
        body: { name: 'Free guide', prices: [{ amount_type: 'fixed', price_amount: 0, price_currency: 'usd' }], organization_id: null },
      })
      const customer = await newCustomer(stage, tenant)
      const { id } = await api.call(createOrder, { body: { customer_id: customer.id, product_id: product.id } })
      return () => ({ path: `/v1/orders/${id}/finalize`, body: {} })
    },
  },
  'orders:ledger_entries': {
    make: async (stage, tenant) => {
      const { api, id, confirm } = await sell(stage, tenant, 'tok_visa')
      await confirm()
      await stage.work.hear()
      await stage.work.run('checkout.payment_settled')
      const { items } = await api.call(listOrders, { query: { checkout_id: [id] } })
      return () => ({ path: `/v1/orders/${items[0]!.id}/ledger-entries` })
    },
  },
  'orders:generate_invoice': {
    make: async (stage, tenant) => {
      const { order } = await invoiceable(stage, await newCustomer(stage, tenant))
      return () => ({ path: `/v1/orders/${order.id}/invoice` })
    },
  },
  'orders:invoice': {
    make: async (stage, tenant) => {
      const { order } = await invoiceable(stage, await newCustomer(stage, tenant))
      await (await clientOf(stage, tenant)).call(generateInvoice, { params: { id: order.id } })
      await stage.work.run('billing.make_document')
      return () => ({ path: `/v1/orders/${order.id}/invoice` })
    },
  },
  'customer_portal:orders:generate_invoice': {
    make: async (stage, tenant) => {
      const { order } = await invoiceable(stage, crewCustomer(tenant))
      return () => ({ path: `/v1/customer-portal/orders/${order.id}/invoice` })
    },
  },
  'customer_portal:orders:invoice': {
    make: async (stage, tenant) => {
      const { order } = await invoiceable(stage, crewCustomer(tenant))
      await (await clientOf(stage, tenant)).call(generateInvoice, { params: { id: order.id } })
      await stage.work.run('billing.make_document')
      return () => ({ path: `/v1/customer-portal/orders/${order.id}/invoice` })
    },
  },
  'customer_portal:orders:receipt': {
    make: async (stage, tenant) => {
      const { order } = await invoiceable(stage, crewCustomer(tenant))
      return () => ({ path: `/v1/customer-portal/orders/${order.id}/receipt` })
    },
  },
  'customer_portal:orders:credit_note': {
    make: async (stage, tenant) => {
      const { order, refund } = await invoiceable(stage, crewCustomer(tenant))
      return () => ({ path: `/v1/customer-portal/orders/${order.id}/refunds/${refund.id}/credit-note` })
    },
  },
  // Another organization, because a connected account becomes the default, and the other recipes pay with test cards.
  'payment-accounts:connect': {
    make: async ({ world, till }) => {
      const owner = await world.person()
      const { id } = await world.organization({ owner: owner.id })
      const { secret_key, publishable_key } = till.standIn.account()
      const credential = sessionHeaders(world, await owner.cookie())
      return () => ({ path: `/v1/organizations/${id}/payment-account`, body: { secret_key, publishable_key }, credential })
    },
  },
  'payment-accounts:receive_event': {
    make: async (stage, tenant) => {
      await (await sell(stage, tenant, 'tok_visa')).confirm()
      const { world, processor } = stage
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ id: string }>(`select id from payment_accounts where organization_id = $1 and processor = 'test'`, [tenant.organization.id]),
      )
      const row = (await findAccountAnywhere(world.api.postgres.db, rows[0]!.id))!
      const [event] = await processor.account(row.id, openAccount(world.platform.sealer, row).secret).takeCallbacks(1)
      return () => ({ path: `/v1/payment-accounts/${tenant.organization.id}/${row.id}/events`, signed: event!.body, headers: event!.headers })
    },
  },
  'disputes:accept': {
    make: async (stage, tenant) => {
      const { api, confirm } = await sell(stage, tenant, 'tok_dispute')
      await confirm()
      await stage.work.hear()
      for (const name of ['checkout.payment_settled', 'billing.follow_dispute'] as const) await stage.work.run(name)
      const { items } = await api.call(listDisputes, { query: { status: ['needs_response'] } })
      return () => ({ path: `/v1/disputes/${items[0]!.id}/accept` })
    },
  },
  'customer_portal:customers:confirm_payment_method': {
    make: async (stage, { crew }) => {
      const answer = await addCard(stage, crew, 'tok_3ds', false)
      if (answer.status !== 'requires_action') throw new Error('the card asks for nothing')
      await stage.processor.completeAction(answer.client_secret, true)
      const setup_intent_id = answer.client_secret.split('_secret_')[0]!
      return () => ({ path: '/v1/customer-portal/customers/me/payment-methods/confirm', body: { setup_intent_id, set_default: false } })
    },
  },
  'checkouts:client_update': instead((t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}`, body: { customer_name: 'Ada' } })),
  'checkouts:client_save_draft': instead((t) => ({ path: `/v1/checkouts/client/${t.checkout_secret}/draft`, body: { fields: { customer_name: 'Ada' } } })),
  'checkouts:client_renew': {
    make: async (stage, tenant) => {
      const { id, client_secret } = await sell(stage, tenant, 'tok_visa')
      await stage.world.database.owner((owner) => owner.query(`update checkouts set status = 'expired', due_at = null where id = $1`, [id]))
      return () => ({ path: `/v1/checkouts/client/${client_secret}/renew` })
    },
  },
  'checkouts:client_confirm': {
    make: async (stage, tenant) => {
      const { client_secret, body } = await sell(stage, tenant, 'tok_visa')
      return () => ({ path: `/v1/checkouts/client/${client_secret}/confirm`, body })
    },
  },
  'customer_portal:license_keys:validate': licenseKey('validate'),
  'customer_portal:license_keys:activate': licenseKey('activate', () => ({ label: 'Fuzz' })),
  'customer_portal:license_keys:deactivate': licenseKey('deactivate', ({ activation_id }) => ({ activation_id })),
  'customer_portal:downloadables:get': {
    make: async ({ world, seeds }, { organization, crew }) => {
      const { file_id } = await seeds.seedFile(organization.id)
      await world.transact(async (tx) => {
        const scope = seeds.inside(organization.id)
        const benefit = await createBenefit(tx, scope, world.platform, {
          type: 'downloadables',
          description: 'Files',
          properties: { files: [file_id], archived: {} },
        })
        await grantByHand(tx, scope, world.platform, { customer_id: crew.customer_id, benefit_id: benefit.id })
      })
      const { authorization } = await crew.portalOf('customer')
      const { items } = await world.client({ token: authorization.slice('Bearer '.length) }).call(listDownloadables, {})
      const { pathname } = new URL(items[0]!.file.download.url)
      return () => ({ path: pathname })
    },
  },
}
