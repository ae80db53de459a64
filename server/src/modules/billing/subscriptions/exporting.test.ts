import { createCustomer, createDiscount, createProduct, exportSubscriptions, SubscriptionExportColumn } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openSales } from '../../../../test/harness/sales.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { formatAmount } from '../../../kernel/money.ts'
import { discountOf } from '../calc/discounts.ts'
import { reductionOf } from '../invoicing/issuing.ts'

let world: World
let sales: ReturnType<typeof openSales>
beforeAll(async () => {
  world = await openWorld()
  sales = openSales(world)
})
afterAll(() => world.close())

const open = async () => {
  const { api, organization } = await world.shop()
  const plan = await api.call(createProduct, {
    body: { name: 'Plan, yearly', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1000 }] },
  })
  const anna = await api.call(createCustomer, {
    body: { email: 'anna@people.test', name: 'Anna', billing_address: { country: 'AT', line1: 'Gasse 1', city: 'Wien', postal_code: '1010' } },
  })
  return { api, organization, plan, anna, price: plan.prices[0]!.id }
}
const linesOf = (text: string) => text.split('\r\n').slice(1, -1)

test('exports subscriptions with seven default columns, latest start first', async () => {
  const { api, plan, anna, price } = await open()
  const first = await sales.subscription(anna, plan, [price])
  const second = await sales.subscription(anna, plan, [price], { recurring_interval_count: 3, status: 'trialing', amount: 900, currency: 'jpy' })
  const reply = await api.send(exportSubscriptions, {})
  expect([reply.headers.get('content-type'), reply.headers.get('content-disposition'), reply.headers.get('x-total-count')]).toEqual([
    'text/csv; charset=utf-8',
    'attachment; filename="subscriptions.csv"',
    '2',
  ])
  const at = (date: Date | null) => date!.toISOString().replace('Z', '+00:00')
  expect(reply.body).toBe(
    [
      'Email,Started At,Product,Amount,Currency,Status,Recurring Interval',
      `anna@people.test,${at(second.started_at)},"Plan, yearly",900,jpy,trialing,3 months`,
      `anna@people.test,${at(first.started_at)},"Plan, yearly",10.00,usd,active,month`,
      '',
    ].join('\r\n'),
  )
})

test('exports the value of every column', async () => {
  const { api, plan, anna, price } = await open()
  const discount = await api.call(createDiscount, { body: { name: 'A third', type: 'percentage', basis_points: 3333, duration: 'forever' } })
  const at = (day: number) => new Date(Date.UTC(2026, 0, day, 12))
  const said = (day: number) => `2026-01-${String(day).padStart(2, '0')}T13:00:00.000+01:00`
  await sales.subscription(anna, plan, [price], {
    status: 'canceled',
    discount_id: discount.id,
    period_discount_id: discount.id,
    seats: 4,
    started_at: at(1),
    current_period_start: at(2),
    current_period_end: at(3),
    cancel_at_period_end: true,
    canceled_at: at(4),
    ends_at: at(5),
    ended_at: at(6),
    trial_start: at(7),
    trial_end: at(8),
    customer_cancellation_reason: 'too_expensive',
  })
  const { body } = await api.send(exportSubscriptions, { query: { timezone: 'Europe/Berlin', columns: [...SubscriptionExportColumn.options] } })
  expect(linesOf(body)).toEqual([
    [
      `anna@people.test,${said(1)},"Plan, yearly",10.00,usd,canceled,month,Anna,,AT,6.67,A third,4`,
      `${said(2)},${said(3)},true,${said(4)},${said(5)},${said(6)},too_expensive,${said(7)},${said(8)}`,
    ].join(),
  ])
})

test('exports the same net amount that the discount calculation returns', async () => {
  const { api, plan, anna, price } = await open()
  const discounts = await Promise.all([
    ...[1, 3333, 5000, 10_000].map((basis_points) =>
      api.call(createDiscount, { body: { name: `${basis_points}`, type: 'percentage', basis_points, duration: 'forever' } }),
    ),
    api.call(createDiscount, { body: { name: 'fixed', type: 'fixed', amounts: { usd: 700, jpy: 5000 }, duration: 'forever' } }),
  ])
  const want: string[] = []
  for (const discount of discounts)
    for (const currency of ['usd', 'jpy', 'isk'])
      for (const amount of [0, 100, 1500, 12_300, 99_900, 99_901]) {
        await sales.subscription(anna, plan, [price], { amount, currency, period_discount_id: discount.id })
        const reduction =
          discount.type === 'percentage'
            ? reductionOf({ type: 'percentage', basis_points: discount.basis_points, amounts: null })
            : reductionOf({ type: 'fixed', basis_points: null, amounts: discount.amounts })
        const [off] = discountOf([{ amount, proration: false }], reduction, currency)
        want.push(formatAmount(amount - off!, currency))
      }
  const { body } = await api.send(exportSubscriptions, { query: { columns: ['net_amount'] } })
  expect(linesOf(body)).toEqual(want.toReversed())
})

test('filters the export by product, status, cancel_at_period_end and start date', async () => {
  const { api, plan, anna, price } = await open()
  const other = await api.call(createProduct, { body: { name: 'Other', recurring_interval: 'year', prices: [{ amount_type: 'fixed', price_amount: 500 }] } })
  const at = (second: number) => new Date(Date.UTC(2026, 5, 1, 0, 0, second))
  await sales.subscription(anna, plan, [price], { seats: 1, started_at: at(1) })
  await sales.subscription(anna, other, [other.prices[0]!.id], { seats: 2, started_at: at(2), status: 'past_due' })
  await sales.subscription(anna, plan, [price], { seats: 3, started_at: at(3), cancel_at_period_end: true })
  const seats = async (query: Parameters<typeof api.send<typeof exportSubscriptions>>[1]['query']) =>
    linesOf((await api.send(exportSubscriptions, { query: { ...query, columns: ['seats'] } })).body)
  expect(await seats({})).toEqual(['3', '2', '1'])
  expect(await seats({ product_id: [other.id] })).toEqual(['2'])
  expect(await seats({ status: ['past_due'] })).toEqual(['2'])
  expect(await seats({ cancel_at_period_end: 'true' })).toEqual(['3'])
  expect(await seats({ cancel_at_period_end: 'false' })).toEqual(['2', '1'])
  expect(await seats({ started_after: at(1).toISOString(), started_before: at(3).toISOString() })).toEqual(['2'])
})
