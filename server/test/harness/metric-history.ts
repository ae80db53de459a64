import { newId } from '../../src/kernel/ids.ts'

type Query = <T extends object>(text: string, values?: readonly unknown[]) => Promise<T[]>

/** A generator of numbers from 0 (inclusive) to 1, the same for the same seed. */
export const seededNumbers = (seed: number) => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return { next, below, pick: <T>(values: readonly T[]): T => values[below(values.length)]!, chance: (share: number): boolean => next() < share }
}
export type Numbers = ReturnType<typeof seededNumbers>

interface Sold {
  readonly id: string
  readonly customer: string
  product: string
  status: 'trialing' | 'active' | 'past_due' | 'paused' | 'canceled'
  amount: number
  seats: number | null
  first: boolean
  held: string[]
}

const reasons = ['customer_service', 'low_quality', 'missing_features', 'switched_service', 'too_complex', 'too_expensive', 'unused', 'other', null] as const
const minute = 60_000

/**
 * Writes years of sales into the tables, as the operations write them, at the given moments of business time. Only the
 * triggers of the database see these writes, so the tests prove what the triggers note.
 */
export const openMetricHistory = async (query: Query, organization_id: string, numbers: Numbers, customers = 40) => {
  const zero = new Date('2022-01-01T00:00:00Z')
  const id = () => newId(new Date())
  const people = Array.from({ length: customers }, id)
  await query(
    `insert into customers (organization_id, id, created_at, type, email_verified, email, metadata)
     select $1, c, $3, 'individual', true, c || '@people.test', '{}' from unnest($2::uuid[]) c`,
    [organization_id, people, zero],
  )
  const intervals = ['month', 'year', 'week', 'day', null] as const
  const products = intervals.map((interval) => ({ id: id(), interval }))
  for (const { id: product, interval } of products)
    await query(
      `insert into products (organization_id, id, created_at, name, visibility, recurring_interval, recurring_interval_count, is_archived, metadata, price_amount_type, price_amount)
       values ($1, $2, $3, 'Plan', 'public', $4, $5, false, '{}', 'fixed', 1000)`,
      [organization_id, product, zero, interval, interval && 1],
    )
  const account = id()
  await query(
    `insert into payment_accounts (organization_id, id, created_at, processor, secret_sealed, is_default) values ($1, $2, $3, 'test', 'sealed', true)`,
    [organization_id, account, zero],
  )
  const live: Sold[] = []
  const paid: { id: string; customer: string; amount: number; payment: string }[] = []

  const post = async (
    at: Date,
    kind: string,
    reference: string,
    customer: string,
    entries: readonly (readonly [account: string, amount: number])[],
    currency: string,
  ) => {
    const transaction = id()
    const kept = entries.filter(([, amount]) => amount !== 0)
    if (kept.length === 0) return
    await query(
      `with t as (insert into ledger_transactions (organization_id, id, at, business_at, kind, reference, entry_count) values ($1, $2, $3, $3, $4, $5, $6))
       insert into ledger_entries (organization_id, transaction_id, position, account, customer_id, amount, currency)
       select $1, $2, n - 1, a, $7, v, $8 from unnest($9::text[], $10::bigint[]) with ordinality e (a, v, n)`,
      [organization_id, transaction, at, kind, reference, kept.length, customer, currency, kept.map(([name]) => name), kept.map(([, amount]) => amount)],
    )
  }

  /** Issues an order, and pays it some minutes later, or never. */
  const order = async (at: Date, sold: Sold | null, customer: string, product: string, amount: number, reason: string, seats: number | null = null) => {
    const order_id = id()
    const currency = numbers.chance(0.05) ? 'eur' : 'usd'
    const isPaid = numbers.chance(0.92)
    const atOnce = isPaid && numbers.chance(0.4)
    await query(
      `insert into orders (organization_id, id, created_at, status, billing_reason, currency, subtotal_amount, discount_amount, net_amount, tax_amount, total_amount,
         applied_balance_amount, due_amount, carried_amount, customer_id, product_id, subscription_id, seats, description, metadata, custom_field_data, period_start)
       values ($1, $2, $3, $4, $5, $6, $7, 0, $7, 0, $7, 0, greatest($7::bigint, 0), 0, $8, $9, $10, $11, 'Plan', '{}', '{}', $3)`,
      [organization_id, order_id, at, atOnce ? 'paid' : 'pending', reason, currency, amount, customer, product, sold?.id ?? null, seats],
    )
    await post(
      at,
      'order_billed',
      order_id,
      customer,
      [
        ['receivable', amount],
        ['revenue', 0 - amount],
      ],
      currency,
    )
    const moment = new Date(at.getTime() + numbers.below(5000) * minute)
    if (isPaid && !atOnce)
      await query(`update orders set status = 'paid', modified_at = $3 where organization_id = $1 and id = $2`, [organization_id, order_id, moment])
    if (!isPaid) {
      await query(`update orders set status = 'void', modified_at = $3 where organization_id = $1 and id = $2`, [organization_id, order_id, moment])
      await post(
        moment,
        'order_voided',
        order_id,
        customer,
        [
          ['receivable', 0 - amount],
          ['revenue', amount],
        ],
        currency,
      )
      return
    }
    if (amount <= 0 || !numbers.chance(0.15)) return
    // A refund of a part, which sometimes does not reach its recipient.
    const refund = id()
    const part = 1 + numbers.below(amount)
    const later = new Date(moment.getTime() + numbers.below(60) * 1440 * minute)
    const payment = id()
    await query(
      `insert into payments (organization_id, id, created_at, account_id, customer_id, kind, status, amount, currency, reusable, trigger, settled_at)
       values ($1, $2, $3, $4, $5, 'payment', 'succeeded', $6, $7, false, 'purchase', $3)`,
      [organization_id, payment, moment, account, customer, amount, currency],
    )
    await query(
      `insert into refunds (organization_id, id, created_at, order_id, payment_id, customer_id, status, reason, amount, tax_amount, currency, revoke_benefits, metadata)
       values ($1, $2, $3, $4, $5, $6, 'succeeded', 'other', $7, 0, $8, false, '{}')`,
      [organization_id, refund, later, order_id, payment, customer, part, currency],
    )
    await post(
      later,
      'refund_paid',
      refund,
      customer,
      [
        ['revenue', part],
        ['receivable', 0 - part],
      ],
      currency,
    )
    if (numbers.chance(0.2))
      await post(
        new Date(later.getTime() + 300 * minute),
        'refund_reversed',
        refund,
        customer,
        [
          ['revenue', 0 - part],
          ['receivable', part],
        ],
        currency,
      )
    if (numbers.chance(0.5))
      await query(`update orders set status = 'partially_refunded', modified_at = $3 where organization_id = $1 and id = $2`, [
        organization_id,
        order_id,
        later,
      ])
    paid.push({ id: order_id, customer, amount, payment })
  }

  const update = (sold: Sold, at: Date, changes: Record<string, unknown>) => {
    const names = Object.keys(changes)
    return query(
      `update subscriptions set modified_at = $3, ${names.map((name, at_) => `${name} = $${at_ + 4}`).join(', ')} where organization_id = $1 and id = $2`,
      [organization_id, sold.id, at, ...names.map((name) => changes[name])],
    )
  }

  const start = async (at: Date) => {
    const product = numbers.pick(products.filter(({ interval }) => interval !== null))
    const sold: Sold = {
      id: id(),
      customer: numbers.pick(people),
      product: product.id,
      status: numbers.chance(0.3) ? 'trialing' : 'active',
      amount: numbers.below(20) * 500,
      seats: numbers.chance(0.4) ? 1 + numbers.below(9) : null,
      first: true,
      held: [],
    }
    await query(
      `insert into subscriptions (organization_id, id, created_at, status, customer_id, product_id, amount, currency, recurring_interval, recurring_interval_count, anchor_day,
         current_period_start, current_period_end, started_at, seats, metadata, custom_field_data, calendar_from)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, 1, $3, $3, $3, $10, '{}', '{}', $3)`,
      [organization_id, sold.id, at, sold.status, sold.customer, sold.product, sold.amount, numbers.chance(0.1) ? 'eur' : 'usd', product.interval, sold.seats],
    )
    live.push(sold)
    await order(at, sold, sold.customer, sold.product, sold.status === 'trialing' ? 0 : sold.amount, 'subscription_create')
  }

  const seat = async (sold: Sold, at: Date) => {
    const held = sold.held.length > 0 && numbers.chance(0.4) ? numbers.pick(sold.held) : undefined
    if (held === undefined) {
      const made = id()
      const isClaimed = numbers.chance(0.3)
      await query(
        `insert into seats (organization_id, id, created_at, subscription_id, status, buyer_customer_id, email, invitation_expires_at, claimed_at, metadata)
         values ($1, $2, $3, $4, $5, $6, 'a@people.test', $7, $8, '{}')`,
        [organization_id, made, at, sold.id, isClaimed ? 'claimed' : 'pending', sold.customer, isClaimed ? null : at, isClaimed ? at : null],
      )
      sold.held.push(made)
    } else if (numbers.chance(0.5)) {
      await query(
        `update seats set status = 'claimed', claimed_at = $3, modified_at = $3, invitation_expires_at = null where organization_id = $1 and id = $2 and status = 'pending'`,
        [organization_id, held, at],
      )
    } else {
      await query(
        `update seats set status = 'revoked', revoked_at = $3, modified_at = $3, invitation_expires_at = null where organization_id = $1 and id = $2`,
        [organization_id, held, at],
      )
      sold.held = sold.held.filter((one) => one !== held)
    }
  }

  const end = async (sold: Sold, at: Date) => {
    await update(sold, at, { status: 'canceled', ended_at: at, ends_at: at, canceled_at: at })
    if (sold.held.length > 0)
      await query(
        `update seats set status = 'revoked', revoked_at = $3, modified_at = $3, invitation_expires_at = null where organization_id = $1 and id = any($2::uuid[])`,
        [organization_id, sold.held, at],
      )
    live.splice(live.indexOf(sold), 1)
  }

  /** Makes one random change at a moment. */
  const step = async (at: Date): Promise<void> => {
    const chosen = numbers.below(14)
    const sold = live.length > 0 ? numbers.pick(live) : undefined
    if (chosen <= 2 || !sold) return start(at)
    if (chosen === 3)
      return order(at, null, numbers.pick(people), products.at(-1)!.id, numbers.below(90) * 100, 'purchase', numbers.chance(0.3) ? 1 + numbers.below(5) : null)
    if (chosen === 4) {
      sold.amount = numbers.below(40) * 250
      return void (await update(sold, at, { amount: sold.amount }))
    }
    if (chosen === 5) {
      sold.product = numbers.pick(products.filter(({ interval }) => interval !== null)).id
      return void (await update(sold, at, { product_id: sold.product }))
    }
    if (chosen === 6) return void (await update(sold, at, { status: numbers.pick(['active', 'past_due', 'paused']) }))
    if (chosen === 7) return void (await update(sold, at, { cancel_at_period_end: true, canceled_at: at, customer_cancellation_reason: numbers.pick(reasons) }))
    if (chosen === 8) return void (await update(sold, at, { cancel_at_period_end: false, canceled_at: null, customer_cancellation_reason: null }))
    if (chosen === 9) return end(sold, at)
    if (chosen === 10 && sold.seats !== null) {
      sold.seats = 1 + numbers.below(9)
      return void (await update(sold, at, { seats: sold.seats }))
    }
    if (chosen === 11 && sold.seats !== null) return seat(sold, at)
    if (chosen === 12) {
      const checkout = id()
      await query(
        `insert into checkouts (organization_id, id, created_at, status, secret_sealed, expires_at, product_id, currency, amount, discount_amount, net_amount, total_amount,
           allow_discount_codes, require_billing_address, is_business_customer, customer_metadata, custom_field_data, metadata, is_bound, knows_customer, customer_id)
         values ($1, $2, $3, 'open', 'sealed', $3, $4, 'usd', 0, 0, 0, 0, false, false, false, '{}', '{}', '{}', false, false, $5)`,
        [organization_id, checkout, at, numbers.pick(products).id, numbers.pick(people)],
      )
      if (numbers.chance(0.6))
        await query(`update checkouts set status = 'succeeded', figures = '{}', modified_at = $3 where organization_id = $1 and id = $2`, [
          organization_id,
          checkout,
          new Date(at.getTime() + numbers.below(3000) * minute),
        ])
      return
    }
    if (sold.status === 'trialing') {
      sold.status = 'active'
      await update(sold, at, { status: 'active' })
    }
    return order(
      at,
      sold,
      sold.customer,
      sold.product,
      sold.amount - (numbers.chance(0.1) ? 9000 : 0),
      numbers.pick(['subscription_cycle', 'subscription_cycle', 'subscription_update']),
    )
  }

  /** Makes random changes between two moments, in their order. */
  const live_through = async (from: Date, to: Date, changes: number): Promise<void> => {
    const moments = Array.from({ length: changes }, () => from.getTime() + Math.floor(numbers.next() * (to.getTime() - from.getTime()))).toSorted(
      (a, b) => a - b,
    )
    // Some changes happen exactly when an hour begins, where intervals meet.
    for (const at of moments) await step(new Date(numbers.chance(0.2) ? Math.floor(at / 3_600_000) * 3_600_000 : at))
  }

  return { people, products, run: live_through }
}
