import { newId } from '../../src/kernel/ids.ts'
import {
  insertDispute,
  insertOrder,
  insertRefund,
  insertSubscription,
  openImportedPeriods,
  type DisputeRow,
  type NewOrderItem,
  type NewOrderTax,
  type OrderRow,
  type PaymentRow,
  type RefundRow,
  type SubscriptionRow,
} from '../../src/modules/billing/index.ts'
import { inWallTime } from '../../src/platform/clocks.sql.ts'
import { json } from '../../src/platform/postgres/parts.sql.ts'
import { unleased } from '../../src/platform/jobs/leases.sql.ts'
import type { Tx } from '../../src/platform/postgres/postgres.ts'
import type { World } from './world.ts'

type Owned = { id: string; organization_id: string }
type Stamps = 'organization_id' | 'id' | 'created_at' | 'modified_at'

/** Inserts orders, subscriptions and other sales directly as rows, for tests of features that build on sales. */
export const openSales = (world: World) => {
  /** Advances the clock by a millisecond before each row. Every row has a different time, so lists have a defined order. */
  const stamped = (tx: Tx, { organization_id }: Owned) => {
    world.clock.advance(1)
    return { organization_id, id: newId(tx.clock.wall()), created_at: tx.clock.wall(), modified_at: null }
  }

  /** Inserts a subscription, with the usage periods of its metered prices. */
  const subscription = (customer: Owned, product: Owned, price_ids: readonly string[], given: Partial<SubscriptionRow> = {}) =>
    world.transact(async (tx) => {
      const stamps = stamped(tx, customer)
      const row: SubscriptionRow = {
        ...stamps,
        status: 'active',
        customer_id: customer.id,
        product_id: product.id,
        discount_id: null,
        checkout_id: null,
        payment_method_id: null,
        amount: 1000,
        currency: 'usd',
        tax_behavior: null,
        recurring_interval: 'month',
        recurring_interval_count: 1,
        anchor_day: 1,
        current_period_start: new Date('2026-03-01T00:00:00Z'),
        current_period_end: new Date('2026-04-01T00:00:00Z'),
        current_meter_period_start: null,
        current_meter_period_end: null,
        trial_start: null,
        trial_end: null,
        started_at: stamps.created_at,
        cancel_at_period_end: false,
        canceled_at: null,
        ends_at: null,
        ended_at: null,
        past_due_at: null,
        pause_at_period_end: false,
        paused_at: null,
        resumes_at: null,
        seats: null,
        discount_applied_at: null,
        customer_cancellation_reason: null,
        customer_cancellation_comment: null,
        metadata: {},
        custom_field_data: {},
        period_discount_id: null,
        calendar_from: stamps.created_at,
        reminded_for: null,
        parked_at: null,
        proration_behavior: null,
        ...unleased,
        ...given,
      }
      const inserted = await insertSubscription(tx, row, price_ids)
      await openImportedPeriods(inWallTime(tx), row.organization_id, [row.id])
      return inserted
    })

  /** Inserts an order with one line, unless other lines are given. */
  const order = (customer: Owned, given: Partial<OrderRow> = {}, lines?: readonly Partial<Omit<NewOrderItem, 'label'> & { label: string }>[]) =>
    world.transact((tx) => {
      const net_amount = given.net_amount ?? 1000
      const tax_amount = given.tax_amount ?? 0
      const total_amount = net_amount + tax_amount
      const row: OrderRow = {
        ...stamped(tx, customer),
        status: 'paid',
        billing_reason: 'purchase',
        currency: 'usd',
        subtotal_amount: net_amount + (given.discount_amount ?? 0),
        discount_amount: 0,
        net_amount,
        tax_amount,
        total_amount,
        applied_balance_amount: 0,
        due_amount: total_amount,
        carried_amount: 0,
        refunded_amount: 0,
        refunded_tax_amount: 0,
        tax_behavior: null,
        billing_name: null,
        billing_address: null,
        tax_id: null,
        tax_id_format: null,
        invoice_number: null,
        receipt_number: null,
        is_invoice_generated: false,
        seats: null,
        customer_id: customer.id,
        product_id: null,
        discount_id: null,
        subscription_id: null,
        checkout_id: null,
        next_payment_attempt_at: null,
        description: 'A thing',
        metadata: {},
        custom_field_data: {},
        period_start: null,
        period_end: null,
        first_failed_at: null,
        benefits_revoked_at: null,
        tax_quote_id: null,
        ...unleased,
        ...given,
      }
      const items = (lines ?? [{}]).map((line): NewOrderItem => ({
        id: newId(tx.clock.wall()),
        amount: row.subtotal_amount,
        discount_amount: row.discount_amount,
        net_amount,
        tax_amount,
        proration: false,
        product_price_id: null,
        ...line,
        label: (line.label ?? row.description) as NewOrderItem['label'],
      }))
      const taxes = items.map((item): NewOrderTax => ({
        id: newId(tx.clock.wall()),
        order_item_id: item.id,
        jurisdiction: 'DE',
        rate: 190_000,
        behavior: row.tax_behavior ?? 'exclusive',
        basis_amount: item.net_amount,
        tax_amount: item.tax_amount,
        reason: 'standard_rated',
      }))
      return insertOrder(tx, row, items, taxes)
    })

  const payment = (customer: Owned, given: Partial<PaymentRow> = {}) =>
    world.transact(async (tx) => {
      const { organization_id } = customer
      const known = await tx.q.selectFrom('payment_accounts').select('id').where('organization_id', '=', organization_id).executeTakeFirst()
      const account_id = known?.id ?? newId(tx.clock.wall())
      if (!known)
        await tx.q
          .insertInto('payment_accounts')
          .values({ ...stamped(tx, customer), id: account_id, processor: 'test', secret_sealed: 'sealed', is_default: true })
          .execute()
      const status = given.status ?? 'succeeded'
      const { method_metadata = null, processor_method: _, ...rest } = given
      const stamps: Pick<PaymentRow, Stamps> = stamped(tx, customer)
      return tx.q
        .insertInto('payments')
        .values({
          ...stamps,
          ...unleased,
          account_id,
          customer_id: customer.id,
          checkout_id: null,
          order_id: null,
          kind: 'payment',
          status,
          amount: 1000,
          currency: 'usd',
          trigger: 'purchase',
          reusable: false,
          sets_default: false,
          early_dispute: null,
          intent_id: null,
          intent_status: null,
          method: null,
          method_metadata: method_metadata && json(method_metadata),
          processor_method: null,
          decline_reason: null,
          decline_message: null,
          decline_final: false,
          settled_at: status === 'pending' ? null : stamps.created_at,
          ...rest,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
    })

  const dispute = (sold: OrderRow, paid: PaymentRow, given: Partial<DisputeRow> = {}) =>
    world.transact((tx) => {
      const stamps = stamped(tx, sold)
      return insertDispute(tx, {
        ...stamps,
        ...unleased,
        account_id: paid.account_id,
        processor_dispute_id: `dispute-${stamps.id}`,
        order_id: sold.id,
        payment_id: paid.id,
        customer_id: sold.customer_id,
        status: 'under_review',
        amount: 1000,
        tax_amount: 0,
        currency: 'usd',
        reason: 'fraudulent',
        evidence_due_by: null,
        past_due: false,
        accepted_at: null,
        ...given,
      })
    })

  const refund = (sold: OrderRow, paid: PaymentRow, given: Partial<RefundRow> = {}) =>
    world.transact((tx) =>
      insertRefund(tx, {
        ...stamped(tx, sold),
        ...unleased,
        order_id: sold.id,
        payment_id: paid.id,
        customer_id: sold.customer_id,
        subscription_id: sold.subscription_id,
        status: 'succeeded',
        reason: 'customer_request',
        amount: 100,
        tax_amount: 0,
        dispute_id: null,
        currency: sold.currency,
        comment: null,
        revoke_benefits: false,
        metadata: {},
        processor_refund_id: null,
        ...given,
      }),
    )

  /** Inserts a checkout that other rows can reference. Tests use only its id. */
  const checkout = async ({ organization_id, id }: Owned): Promise<string> => {
    const made = newId(world.clock.wall())
    await world.database.owner((owner) =>
      owner.query(
        `insert into checkouts (organization_id, id, created_at, status, secret_sealed, expires_at, product_id, currency, amount, discount_amount, net_amount,
           total_amount, allow_discount_codes, require_billing_address, is_business_customer, is_bound, knows_customer, customer_metadata, custom_field_data, metadata)
         values ($1, $2, $3, 'expired', '', $3, $4, 'usd', 1000, 0, 1000, 1000, true, false, false, false, false, '{}', '{}', '{}')`,
        [organization_id, made, world.clock.wall(), id],
      ),
    )
    return made
  }

  return { checkout, dispute, order, payment, refund, subscription }
}
