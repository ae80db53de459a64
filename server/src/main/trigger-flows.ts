import {
  createMeter,
  deleteCustomer,
  deleteDiscount,
  deleteMember,
  ingestEvents,
  listOrganizations,
  revokeSeat,
  revokeSubscription,
  updateCheckout,
  updateCustomer,
  updateDiscount,
  updateMember,
  updateOrganization,
  updateProduct,
  updateSubscription,
  type WebhookEventType,
} from '@bursar/contract'
import {
  advance,
  benefit,
  buy,
  change,
  checkout,
  clock,
  customer,
  discount,
  granted,
  member,
  overADay,
  overAMonth,
  paused,
  plan,
  product,
  refund,
  rewrite,
  seat,
  subscribe,
  word,
  type Flow,
} from './trigger-steps.ts'

interface Trigger {
  /** The objects whose requests take overrides. */
  readonly objects: readonly string[]
  /** Makes the calls that cause the event, and returns the id of the resource that the event is about, or of its customer. */
  readonly run: (flow: Flow) => Promise<string>
  readonly says?: string
}

const buying = ['product', 'customer', 'checkout', 'payment']
const renewing = { says: 'a test clock lets a month pass' }

/** For each event type: the operations that emit it. */
export const triggers: Record<WebhookEventType, Trigger> = {
  'checkout.created': { objects: ['product', 'checkout'], run: async (flow) => (await checkout(flow, (await product(flow)).id)).id },
  'checkout.updated': {
    objects: ['product', 'checkout', 'change'],
    run: async (flow) => {
      const { id } = await checkout(flow, (await product(flow)).id)
      return (await flow.requestOf('change').call(updateCheckout, { params: { id }, body: { customer_email: `${word()}@example.com` } })).id
    },
  },
  'checkout.expired': {
    objects: ['product', 'customer', 'checkout'],
    says: 'a test clock lets a day pass',
    run: async (flow) => {
      const { id: clock_id } = await clock(flow)
      const { id: customer_id } = await customer(flow, { test_clock_id: clock_id })
      const { id } = await checkout(flow, (await product(flow)).id, { customer_id })
      await advance(flow, clock_id, overADay)
      return id
    },
  },
  'customer.created': { objects: ['customer'], run: async (flow) => (await customer(flow)).id },
  'customer.updated': {
    objects: ['customer', 'change'],
    run: async (flow) => {
      const { id } = await customer(flow)
      return (await flow.requestOf('change').call(updateCustomer, { params: { id }, body: { name: `Renamed ${word()}` } })).id
    },
  },
  'customer.deleted': {
    objects: ['customer'],
    run: async (flow) => {
      const { id } = await customer(flow)
      await flow.api.call(deleteCustomer, { params: { id } })
      return id
    },
  },
  'customer.state_changed': { objects: buying, run: async (flow) => (await subscribe(flow)).customer_id },
  'customer_seat.assigned': { objects: [...buying, 'seat'], run: async (flow) => (await seat(flow)).id },
  'customer_seat.claimed': {
    objects: [...buying, 'seat'],
    says: 'the seat is claimed without an invitation',
    run: async (flow) => (await seat(flow, { immediate_claim: true })).id,
  },
  'customer_seat.revoked': {
    objects: [...buying, 'seat'],
    run: async (flow) => {
      const { id } = await seat(flow)
      await flow.api.call(revokeSeat, { params: { seat_id: id } })
      return id
    },
  },
  'member.created': { objects: ['customer', 'member'], run: async (flow) => (await member(flow)).id },
  'member.updated': {
    objects: ['customer', 'member', 'change'],
    run: async (flow) => {
      const { id, customer_id } = await member(flow)
      return (await flow.requestOf('change').call(updateMember, { params: { id: customer_id, member_id: id }, body: { name: `Renamed ${word()}` } })).id
    },
  },
  'member.deleted': {
    objects: ['customer', 'member'],
    run: async (flow) => {
      const { id, customer_id } = await member(flow)
      await flow.api.call(deleteMember, { params: { id: customer_id, member_id: id } })
      return id
    },
  },
  'order.created': { objects: buying, run: async (flow) => (await buy(flow, (await product(flow)).id)).order_id },
  'order.updated': { objects: buying, run: async (flow) => (await buy(flow, (await product(flow)).id)).order_id },
  'order.paid': { objects: buying, run: async (flow) => (await buy(flow, (await product(flow)).id)).order_id },
  'order.refunded': { objects: [...buying, 'refund'], run: async (flow) => (await refund(flow)).order_id },
  'subscription.created': { objects: buying, run: async (flow) => (await subscribe(flow)).id },
  'subscription.active': { objects: buying, run: async (flow) => (await subscribe(flow)).id },
  'subscription.updated': {
    objects: [...buying, 'subscription'],
    run: async (flow) => {
      const { id } = await subscribe(flow)
      await change(flow, id, { metadata: { triggered: word() } })
      return id
    },
  },
  'subscription.canceled': {
    objects: [...buying, 'subscription'],
    run: async (flow) => {
      const { id } = await subscribe(flow)
      await change(flow, id, { cancel_at_period_end: true })
      return id
    },
  },
  'subscription.uncanceled': {
    objects: buying,
    run: async (flow) => {
      const { id } = await subscribe(flow)
      await change(flow, id, { cancel_at_period_end: true })
      await change(flow, id, { cancel_at_period_end: false })
      return id
    },
  },
  'subscription.cycled': {
    objects: buying,
    ...renewing,
    run: async (flow) => {
      const { id, clock_id } = await subscribe(flow, { clocked: true })
      await advance(flow, clock_id, overAMonth)
      return id
    },
  },
  'subscription.revoked': {
    objects: buying,
    run: async (flow) => {
      const { id } = await subscribe(flow)
      await flow.api.call(revokeSubscription, { params: { id } })
      return id
    },
  },
  'subscription.past_due': {
    objects: buying,
    says: 'a test clock lets a month pass, and the card is declined',
    run: async (flow) => {
      const { id, clock_id } = await subscribe(flow, { clocked: true, card: 'tok_declined_later' })
      await advance(flow, clock_id, overAMonth)
      return id
    },
  },
  'subscription.paused': { objects: [...buying, 'subscription'], ...renewing, run: async (flow) => (await paused(flow)).id },
  'subscription.resumed': {
    objects: [...buying, 'subscription'],
    ...renewing,
    run: async (flow) => {
      const { id } = await paused(flow)
      await flow.api.call(updateSubscription, { params: { id }, body: { resume: true } })
      return id
    },
  },
  'refund.created': { objects: [...buying, 'refund'], run: async (flow) => (await refund(flow)).id },
  'refund.updated': {
    objects: [...buying, 'refund'],
    says: 'the bank takes a minute',
    run: async (flow) => {
      const { id } = await refund(flow, 'tok_refund_pending')
      flow.say('waiting for the bank, which takes a minute')
      return id
    },
  },
  'product.created': { objects: ['product'], run: async (flow) => (await product(flow)).id },
  'product.updated': {
    objects: ['product', 'change'],
    run: async (flow) => {
      const { id } = await product(flow)
      return (await flow.requestOf('change').call(updateProduct, { params: { id }, body: { name: `Renamed ${word()}` } })).id
    },
  },
  'discount.created': { objects: ['discount'], run: async (flow) => (await discount(flow)).id },
  'discount.updated': {
    objects: ['discount', 'change'],
    run: async (flow) => {
      const { id } = await discount(flow)
      return (await flow.requestOf('change').call(updateDiscount, { params: { id }, body: { name: `Renamed ${word()}` } })).id
    },
  },
  'discount.deleted': {
    objects: ['discount'],
    run: async (flow) => {
      const { id } = await discount(flow)
      await flow.api.call(deleteDiscount, { params: { id } })
      return id
    },
  },
  'benefit.created': { objects: ['benefit'], run: async (flow) => (await benefit(flow)).id },
  'benefit.updated': {
    objects: ['benefit', 'change'],
    run: async (flow) => {
      const { id } = await benefit(flow)
      await rewrite(flow, id)
      return id
    },
  },
  'benefit_grant.created': { objects: ['benefit', ...buying], run: async (flow) => (await granted(flow)).grant_id },
  'benefit_grant.cycled': {
    objects: ['benefit', ...buying],
    ...renewing,
    run: async (flow) => {
      const { grant_id, clock_id } = await granted(flow, { clocked: true })
      await advance(flow, clock_id, overAMonth)
      return grant_id
    },
  },
  'benefit_grant.updated': {
    objects: ['benefit', ...buying, 'change'],
    run: async (flow) => {
      const { grant_id, benefit_id } = await granted(flow)
      await rewrite(flow, benefit_id)
      return grant_id
    },
  },
  'benefit_grant.revoked': {
    objects: ['benefit', ...buying],
    run: async (flow) => {
      const { grant_id, id } = await granted(flow)
      await flow.api.call(revokeSubscription, { params: { id } })
      return grant_id
    },
  },
  'organization.updated': {
    objects: ['change'],
    run: async ({ api, requestOf }) => {
      const [organization] = (await api.call(listOrganizations, {})).items
      return (await requestOf('change').call(updateOrganization, { params: { id: organization!.id }, body: {} })).id
    },
  },
  'usage.threshold_reached': {
    objects: ['meter', ...buying, 'usage'],
    run: async (flow) => {
      const { requestOf } = flow
      const filter = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: `triggered_${word()}` }] }
      const meter = await requestOf('meter').call(createMeter, { body: { name: `Triggered ${word()}`, filter, aggregation: { func: 'count' } } })
      const { id: product_id } = await plan(flow, {
        prices: [{ amount_type: 'metered_unit', price_currency: 'usd', meter_id: meter.id, unit_amount: '100', cap_amount: 100 }],
      })
      const { customer_id } = await subscribe(flow, { product_id })
      await requestOf('usage').call(ingestEvents, { body: { events: [{ name: filter.clauses[0]!.value, customer_id }] } })
      return customer_id
    },
  },
}
