import { createDiscount, createProduct } from '@bursar/contract'
import { newId } from '../../../src/kernel/ids.ts'
import type { CardToken } from '../../../src/gateways/payments/test/cards.ts'
import { defaultAccount } from '../../../src/modules/billing/payments/attempts.sql.ts'
import type { World } from '../../harness/world.ts'
import type { Dice } from './plan.ts'

/** Expected outcome of a renewal. */
export type Fate = 'paid' | 'free' | 'declined' | 'declined_for_good' | 'no_card'

/** Percentages of customers by payment method. The remaining customers have a card that is charged without problems. */
const shares: readonly { readonly share: number; readonly card: CardToken | null; readonly fate: Fate }[] = [
  { share: 4, card: 'tok_declined_later', fate: 'declined' },
  { share: 3, card: 'tok_expired_later', fate: 'declined_for_good' },
  { share: 2, card: null, fate: 'no_card' },
  { share: 2, card: null, fate: 'free' },
  { share: 4, card: 'tok_charge_then_timeout', fate: 'paid' },
  { share: 2, card: 'tok_timeout_then_nothing', fate: 'paid' },
  { share: 3, card: 'tok_callback_twice', fate: 'paid' },
  { share: 3, card: 'tok_callback_never', fate: 'paid' },
]
const plainly = { card: 'tok_visa', fate: 'paid' } as const

const draw = (dice: Dice) => {
  let left = dice.roll() * 100
  for (const one of shares) if ((left -= one.share) < 0) return one
  return plainly
}

/**
 * Inserts subscriptions directly as rows, with cards that the test processor knows. The subscriptions fall due one after
 * the other from `from` on. The separate table `fates` has the expected outcome of each renewal.
 */
export const writeSubscriptions = async (
  world: World,
  dice: Dice,
  { count, from, over, pause = 0 }: { count: number; from: Date; over: number; pause?: number },
) => {
  const { organization, api } = await world.shop()
  const organization_id = organization.id
  const price = (price_amount: number, price_currency: 'usd' | 'eur') => ({ amount_type: 'fixed' as const, price_amount, price_currency })
  const plan = await api.call(createProduct, { body: { name: 'Plan', recurring_interval: 'month', prices: [price(2900, 'usd'), price(2700, 'eur')] } })
  const offers = plan.prices.flatMap((one) =>
    one.amount_type === 'fixed' ? [{ price_id: one.id, amount: one.price_amount, currency: one.price_currency }] : [],
  )
  const guide = await api.call(createProduct, { body: { name: 'Field guide', prices: [price(900, 'usd')] } })
  const gift = await api.call(createDiscount, { body: { name: 'A gift', type: 'percentage', duration: 'forever', basis_points: 10_000 } })
  const account = await world.transact((tx) => defaultAccount(tx, world.platform.sealer, organization_id, 'test'))

  const ids = (at: number) => newId(new Date(from.getTime() - 86_400_000 + at))
  const rows = Array.from({ length: count }, (_, at) => {
    const { card, fate } = draw(dice)
    const { price_id, amount, currency } = offers[dice.below(offers.length)]!
    return {
      at,
      customer_id: ids(at),
      subscription_id: ids(at),
      method_id: card === null ? null : ids(at),
      token: card === null ? null : `${card}:${at}`,
      product_id: plan.id,
      price_id,
      amount: fate === 'free' ? 0 : amount,
      currency,
      discount_id: fate === 'free' ? gift.id : null,
      fate,
      // Every second subscription falls due later by `pause`.
      due_at: new Date(from.getTime() + Math.floor(dice.roll() * over) + (at % 2) * pause).toISOString(),
    }
  })
  await world.database.owner(async (owner) => {
    // Disables the audit triggers: these rows have no actor, and auditing so many in one statement takes minutes.
    const noting = (verb: 'enable' | 'disable') =>
      owner.query(
        ['customers', 'payment_methods', 'subscriptions']
          .flatMap((table) => ['note_changes', 'note_updates'].map((trigger) => `alter table ${table} ${verb} trigger ${trigger};`))
          .join(' '),
      )
    await noting('disable')
    await owner.query(`create table fates (at int, customer_id uuid, subscription_id uuid primary key, method_id uuid, token text, product_id uuid,
      price_id uuid, amount bigint, currency text, discount_id uuid, fate text, due_at timestamptz(3))`)
    for (let at = 0; at < rows.length; at += 5000)
      await owner.query('insert into fates select * from json_populate_recordset(null::fates, $1)', [JSON.stringify(rows.slice(at, at + 5000))])
    await owner.query(
      `insert into customers (organization_id, id, created_at, type, email, email_verified, name, billing_address, metadata)
       select $1, customer_id, $2, 'individual', 'payer-' || at || '@people.test', false, 'Payer ' || at, '{"line1": null, "line2": null, "postal_code": null, "city": null, "state": null, "country": "DE"}', '{}' from fates`,
      [organization_id, from],
    )
    await owner.query(
      `insert into test_processor.methods (account, id, created_at, customer, token, kept_at)
       select $1, 'test_met_' || at, $2, customer_id::text, token, $2 from fates where token is not null`,
      [account!.id, from],
    )
    await owner.query(
      `insert into payment_methods (organization_id, id, created_at, customer_id, processor, type, method_metadata, account_id, processor_method_id, fingerprint)
       select $1, method_id, $2, customer_id, 'stripe', 'card', '{"brand": "visa", "last4": "0001", "exp_month": 12, "exp_year": 2040, "wallet": null}', $3, 'test_met_' || at, 'fp_' || at
       from fates where token is not null`,
      [organization_id, from, account!.id],
    )
    await owner.query('update customers c set default_payment_method_id = f.method_id from fates f where c.organization_id = $1 and c.id = f.customer_id', [
      organization_id,
    ])
    await owner.query(
      `insert into subscriptions (organization_id, id, created_at, status, customer_id, product_id, discount_id, discount_applied_at, amount, currency, recurring_interval,
         recurring_interval_count, anchor_day, current_period_start, current_period_end, started_at, metadata, custom_field_data, calendar_from, due_at)
       select $1, subscription_id, due_at - interval '1 month', 'active', customer_id, product_id, discount_id, case when discount_id is not null then due_at - interval '1 month' end,
         amount, currency, 'month', 1, extract(day from due_at at time zone 'UTC'), due_at - interval '1 month', due_at, due_at - interval '1 month', '{}', '{}', due_at - interval '1 month', due_at
       from fates`,
      [organization_id],
    )
    await owner.query(
      'insert into subscription_prices (organization_id, subscription_id, price_id, position) select $1, subscription_id, price_id, 0 from fates',
      [organization_id],
    )
    await noting('enable')
    await owner.query('analyze')
  })
  return { organization_id, token: (await organization.token()).secret, product_id: guide.id }
}
