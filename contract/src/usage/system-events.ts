import { z } from 'zod'
import { BenefitType } from '../catalog/benefits.ts'
import { Metadata } from '../catalog/metadata.ts'
import { Address } from '../customers/addresses.ts'
import { Customer } from '../customers/customers.ts'
import { resource, timestamp, uuid } from '../kit/index.ts'
import { SubscriptionProrationBehavior } from '../organizations/organizations.ts'

/** The fields of every event, from a seller or from Bursar itself. */
export const eventFields = {
  id: uuid(),
  timestamp: timestamp().describe('When the usage happened.'),
  organization_id: uuid(),
  customer_id: uuid().nullable().describe('Null if no customer has the external customer id yet.'),
  customer: Customer.nullable(),
  external_customer_id: z.string().nullable(),
  member_id: uuid().nullable().describe('The member that caused the event.'),
  external_member_id: z.string().nullable(),
  child_count: z.int().describe('The number of events whose parent is this event.'),
  parent_id: uuid().nullable().describe('Null for an event without a parent, and until the parent arrives.'),
  label: z.string().describe('The name for people. It is set on the event type.'),
}

const word = () => z.string()
const whole = () => z.int()
const optional = <S extends Record<string, z.ZodType>>(shape: S) =>
  Object.fromEntries(Object.entries(shape).map(([name, field]) => [name, field.optional()])) as { [K in keyof S]: z.ZodOptional<S[K]> }

const interval = { recurring_interval: word(), recurring_interval_count: whole() }
const price = { amount: whole(), currency: word(), ...interval }
const ofSubscription = { subscription_id: word(), ...optional({ product_id: word(), ...price }) }
const person = {
  customer_id: word(),
  customer_email: word().nullable(),
  customer_name: word().nullable(),
  customer_external_id: word().nullable(),
}
const place = { tax_state: word().nullable(), tax_country: word().nullable(), exchange_rate: z.number() }
const presented = { amount: whole(), currency: word(), presentment_amount: whole(), presentment_currency: word(), tax_amount: whole(), fee: whole() }
const sold = { order_id: word(), order_created_at: word(), product_id: word(), subscription_id: word() }

const BenefitGrantMetadata = resource('BenefitGrantMetadata', {
  benefit_id: word(),
  benefit_grant_id: word(),
  benefit_type: BenefitType,
  member_id: word().optional(),
})
const BalanceRefundMetadata = resource('BalanceRefundMetadata', {
  transaction_id: word(),
  refund_id: word(),
  ...presented,
  ...optional({ ...sold, ...place, refundable_amount: whole() }),
})
const BalanceDisputeMetadata = resource('BalanceDisputeMetadata', {
  transaction_id: word(),
  dispute_id: word(),
  ...presented,
  ...optional({ ...sold, ...place }),
})
const CustomerUpdatedFields = resource('CustomerUpdatedFields', {
  name: word().nullish(),
  billing_name: word().nullish(),
  email: word().nullish(),
  billing_address: Address.nullish(),
  tax_id: word().nullish(),
  metadata: Metadata.nullish(),
})

const system = <const N extends string, M extends z.ZodType>(schema: string, name: N, metadata: M) =>
  resource(schema, { ...eventFields, source: z.literal('system'), name: z.literal(name), metadata })

/** The events that Bursar itself notes. Meters never count them. */
export const SystemEvent = z
  .discriminatedUnion('name', [
    system('MeterCreditEvent', 'meter.credited', resource('MeterCreditedMetadata', { meter_id: word(), units: whole(), rollover: z.boolean() })),
    system('MeterResetEvent', 'meter.reset', resource('MeterResetMetadata', { meter_id: word() })),
    system('BenefitGrantedEvent', 'benefit.granted', BenefitGrantMetadata),
    system('BenefitCycledEvent', 'benefit.cycled', BenefitGrantMetadata),
    system('BenefitUpdatedEvent', 'benefit.updated', BenefitGrantMetadata),
    system('BenefitRevokedEvent', 'benefit.revoked', BenefitGrantMetadata),
    system(
      'SubscriptionCreatedEvent',
      'subscription.created',
      resource('SubscriptionCreatedMetadata', { subscription_id: word(), product_id: word(), ...price, started_at: word() }),
    ),
    system(
      'SubscriptionUpdatedEvent',
      'subscription.updated',
      resource('SubscriptionUpdatedMetadata', {
        subscription_id: word(),
        ...optional({ product_id: word(), proration_behavior: SubscriptionProrationBehavior, trial_end: word(), seats: whole(), billing_period_end: word() }),
        discount_id: word().nullish(),
      }),
    ),
    system('SubscriptionCycledEvent', 'subscription.cycled', resource('SubscriptionCycledMetadata', ofSubscription)),
    system(
      'SubscriptionCanceledEvent',
      'subscription.canceled',
      resource('SubscriptionCanceledMetadata', {
        subscription_id: word(),
        ...price,
        canceled_at: word(),
        ...optional({
          product_id: word(),
          customer_cancellation_reason: word(),
          customer_cancellation_comment: word(),
          ends_at: word(),
          cancel_at_period_end: z.boolean(),
        }),
      }),
    ),
    system('SubscriptionRevokedEvent', 'subscription.revoked', resource('SubscriptionRevokedMetadata', ofSubscription)),
    system('SubscriptionPastDueEvent', 'subscription.past_due', resource('SubscriptionPastDueMetadata', { ...ofSubscription, past_due_at: word() })),
    system('SubscriptionReactivatedEvent', 'subscription.reactivated', resource('SubscriptionReactivatedMetadata', ofSubscription)),
    system('SubscriptionReinstatedEvent', 'subscription.reinstated', resource('SubscriptionReinstatedMetadata', ofSubscription)),
    system(
      'SubscriptionPausedEvent',
      'subscription.paused',
      resource('SubscriptionPausedMetadata', { ...ofSubscription, paused_at: word(), resumes_at: word().optional() }),
    ),
    system('SubscriptionResumedEvent', 'subscription.resumed', resource('SubscriptionResumedMetadata', ofSubscription)),
    system(
      'SubscriptionUncanceledEvent',
      'subscription.uncanceled',
      resource('SubscriptionUncanceledMetadata', { subscription_id: word(), product_id: word(), ...price }),
    ),
    system(
      'SubscriptionProductUpdatedEvent',
      'subscription.product_updated',
      resource('SubscriptionProductUpdatedMetadata', { subscription_id: word(), old_product_id: word(), new_product_id: word() }),
    ),
    system(
      'SubscriptionSeatsUpdatedEvent',
      'subscription.seats_updated',
      resource('SubscriptionSeatsUpdatedMetadata', { subscription_id: word(), old_seats: whole(), new_seats: whole(), proration_behavior: word() }),
    ),
    system(
      'SubscriptionBillingPeriodUpdatedEvent',
      'subscription.billing_period_updated',
      resource('SubscriptionBillingPeriodUpdatedMetadata', { subscription_id: word(), old_period_end: word(), new_period_end: word() }),
    ),
    system('SubscriptionUpdateClearedEvent', 'subscription.update_cleared', resource('SubscriptionUpdateClearedMetadata', { subscription_id: word() })),
    system(
      'OrderPaidEvent',
      'order.paid',
      resource('OrderPaidMetadata', {
        order_id: word(),
        amount: whole(),
        ...optional({
          product_id: word(),
          billing_type: word(),
          currency: word(),
          net_amount: whole(),
          tax_amount: whole(),
          applied_balance_amount: whole(),
          discount_amount: whole(),
          discount_id: word(),
          platform_fee: whole(),
          subscription_id: word(),
          ...interval,
        }),
      }),
    ),
    system('OrderRefundedEvent', 'order.refunded', resource('OrderRefundedMetadata', { order_id: word(), refunded_amount: whole(), currency: word() })),
    system('OrderVoidedEvent', 'order.voided', resource('OrderVoidedMetadata', { order_id: word(), amount: whole(), currency: word() })),
    system('OrderUnvoidedEvent', 'order.unvoided', resource('OrderUnvoidedMetadata', { order_id: word(), amount: whole(), currency: word() })),
    system(
      'CheckoutCreatedEvent',
      'checkout.created',
      resource('CheckoutCreatedMetadata', { checkout_id: word(), checkout_status: word(), product_id: word().optional() }),
    ),
    system('CustomerCreatedEvent', 'customer.created', resource('CustomerCreatedMetadata', person)),
    system('CustomerUpdatedEvent', 'customer.updated', resource('CustomerUpdatedMetadata', { ...person, updated_fields: CustomerUpdatedFields })),
    system('CustomerDeletedEvent', 'customer.deleted', resource('CustomerDeletedMetadata', person)),
    system(
      'BalanceOrderEvent',
      'balance.order',
      resource('BalanceOrderMetadata', {
        transaction_id: word(),
        order_id: word(),
        ...presented,
        ...optional({ product_id: word(), subscription_id: word(), net_amount: whole(), ...place }),
      }),
    ),
    system(
      'BalanceCreditOrderEvent',
      'balance.credit_order',
      resource('BalanceCreditOrderMetadata', {
        order_id: word(),
        amount: whole(),
        currency: word(),
        tax_amount: whole(),
        fee: whole(),
        ...optional({ product_id: word(), subscription_id: word(), ...place }),
      }),
    ),
    system('BalanceRefundEvent', 'balance.refund', BalanceRefundMetadata),
    system('BalanceRefundReversalEvent', 'balance.refund_reversal', BalanceRefundMetadata),
    system('BalanceDisputeEvent', 'balance.dispute', BalanceDisputeMetadata),
    system('BalanceDisputeReversalEvent', 'balance.dispute_reversal', BalanceDisputeMetadata),
  ])
  .meta({ id: 'SystemEvent' })
export type SystemEvent = z.output<typeof SystemEvent>

/** The names of system events with their labels. The labels cannot be changed. */
export const systemEventLabels: ReadonlyMap<string, string> = new Map(
  SystemEvent.options.map(({ shape }) => [
    shape.name.value,
    shape.name.value
      .split(/[._]/)
      .map((part) => part.charAt(0).toUpperCase() + part.slice(1))
      .join(' '),
  ]),
)
