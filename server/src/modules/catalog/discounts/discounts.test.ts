import { createDiscount, createProduct, deleteDiscount, deleteProduct, getDiscount, listDiscounts, updateDiscount } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const tenth = { name: 'A tenth', type: 'percentage' as const, duration: 'once' as const, basis_points: 1000 }
const five = { name: 'Five off', type: 'fixed' as const, duration: 'forever' as const, amounts: { usd: 500, eur: 450 } }

test('creates, reads, lists, updates and deletes every type of discount, and emits events', async () => {
  const { api, organization, events } = await world.shop()
  const product = await api.call(createProduct, { body: { name: 'Plan', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
  const kinds = [
    tenth,
    { ...tenth, name: 'Three months', duration: 'repeating' as const, duration_in_months: 3 },
    five,
    { ...five, name: 'Older', amounts: undefined, amount: 300, currency: 'eur' as const },
  ]
  const made = []
  for (const body of kinds) made.push(await api.call(createDiscount, { body: { ...body, products: [product.id], metadata: { a: 1 } } }))
  expect(made[0]).toMatchObject({
    type: 'percentage',
    basis_points: 1000,
    duration: 'once',
    code: null,
    redemptions_count: 0,
    organization_id: organization.id,
  })
  expect(made[1]).toMatchObject({ duration: 'repeating', duration_in_months: 3 })
  expect(made[2]).toMatchObject({ type: 'fixed', amounts: { usd: 500, eur: 450 }, amount: 500, currency: 'usd' })
  expect(made[3]).toMatchObject({ amounts: { eur: 300 }, amount: 300, currency: 'eur' })
  for (const one of made) {
    expect(one.products).toMatchObject([{ id: product.id, name: 'Plan', is_recurring: false }])
    expect(await api.call(getDiscount, { params: { id: one.id } })).toEqual(one)
  }
  const names = async (query: object) => (await api.call(listDiscounts, { query })).items.map(({ name }) => name)
  expect(await names({ sorting: 'name' })).toEqual(['A tenth', 'Five off', 'Older', 'Three months'])
  expect(await names({ query: 'three' })).toEqual(['Three months'])
  expect(await names({ sorting: ['ends_at', '-name'] })).toEqual(['Three months', 'Older', 'Five off', 'A tenth'])
  const changed = await api.call(updateDiscount, { params: { id: made[0]!.id }, body: { name: 'A fifth', basis_points: 2000, code: 'FIFTH', products: [] } })
  expect(changed).toMatchObject({ name: 'A fifth', basis_points: 2000, code: 'FIFTH', products: [] })
  expect((await api.send(deleteDiscount, { params: { id: changed.id } })).status).toBe(204)
  for (const again of [getDiscount, deleteDiscount] as const) expect((await api.send(again, { params: { id: changed.id } })).status).toBe(404)
  expect((await events('discount.created', 'discount.updated', 'discount.deleted')).map(({ type }) => type)).toEqual([
    ...kinds.map(() => 'discount.created'),
    'discount.updated',
    'discount.deleted',
  ])
  // A product that a discount is restricted to cannot be deleted.
  expect((await api.send(deleteProduct, { params: { id: product.id } })).status).toBe(409)
})

test('a discount code is unique in its organization, regardless of case and under concurrent requests', async () => {
  const { api } = await world.shop()
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, at) => api.send(createDiscount, { body: { ...tenth, code: at % 2 === 0 ? 'SAVE10' : 'save10' } })),
  )
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  for (const refused of answers.filter(({ status }) => status !== 201))
    expect(refused).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'code'] }] } })
  const other = await api.call(createDiscount, { body: { ...tenth, code: 'OTHER' } })
  expect((await api.send(updateDiscount, { params: { id: other.id }, body: { code: 'Save10' } })).status).toBe(422)
  expect((await api.call(updateDiscount, { params: { id: other.id }, body: { code: '' } })).code).toBeNull()
  const winner = answers.find(({ status }) => status === 201)!.body
  await api.call(deleteDiscount, { params: { id: winner.id } })
  expect((await api.send(createDiscount, { body: { ...tenth, code: 'SAVE10' } })).status).toBe(201)
  expect((await (await world.shop()).api.send(createDiscount, { body: { ...tenth, code: 'SAVE10' } })).status).toBe(201)
})

test('lists sorted by end date include discounts without an end date', async () => {
  const { api } = await world.shop()
  for (const ends_at of ['2030-01-01T00:00:00Z', null, null]) await api.call(createDiscount, { body: { ...tenth, ends_at } })
  const query = { sorting: 'ends_at', limit: '2' } as const
  const first = await api.call(listDiscounts, { query })
  const second = await api.call(listDiscounts, { query: { ...query, cursor: first.pagination.next_cursor! } })
  expect(new Set([...first.items, ...second.items].map(({ id }) => id)).size).toBe(3)
})

test('rejects a discount with contradictory terms, with the locations of all problems', async () => {
  const { api } = await world.shop()
  const stranger = await (await world.shop()).api.call(createProduct, { body: { name: 'Theirs', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
  const places = async (body: object) => {
    const answer = await api.sendRaw(createDiscount, { body })
    expect(answer.status).toBe(422)
    return (answer.body as { detail: { loc: unknown[] }[] }).detail.map(({ loc }) => loc.slice(1).join('.'))
  }
  expect(
    await places({ ...tenth, duration: 'repeating', starts_at: '2026-02-01T00:00:00Z', ends_at: '2026-01-01T00:00:00Z', products: [stranger.id] }),
  ).toEqual(['ends_at', 'duration_in_months', 'products.0'])
  // With its offset, this time is in the year 10000.
  expect(await places({ ...tenth, ends_at: '9999-12-31T23:59:59-01:00' })).toEqual(['ends_at'])
  expect(await places({ ...tenth, duration_in_months: 3 })).toEqual(['duration_in_months'])
  expect(await places({ ...five, amounts: null })).toEqual(['amounts'])
  expect(await places({ ...five, amounts: {} })).toEqual(['amounts'])
  expect(await places({ ...five, amounts: { usd: -1 } })).toEqual(['amounts.usd'])
  expect(new Set(await places({ ...five, amounts: { zzz: 1 } }))).toEqual(new Set(['amounts']))
  expect(await places({ ...tenth, basis_points: 10_001 })).toEqual(['basis_points'])
  for (const code of ['ab', 'no spaces', 'ümlaut', 'a'.repeat(257)]) expect(await places({ ...tenth, code })).toEqual(['code'])
  expect(await places({ ...tenth, max_redemptions: 0 })).toEqual(['max_redemptions'])
})

test('rejects a change of a discount’s type or duration, and of its amount after the first redemption', async () => {
  const { api } = await world.shop()
  const { id } = await api.call(createDiscount, { body: five })
  const change = (body: object) => api.sendRaw(updateDiscount, { params: { id }, body })
  for (const body of [{ type: 'percentage' }, { duration: 'once' }, { basis_points: 100 }, { duration_in_months: 2 }])
    expect((await change(body)).status).toBe(422)
  expect((await change({ type: 'fixed', duration: 'forever', amounts: { usd: 600 } })).status).toBe(200)
  await world.database.owner((owner) => owner.query('update discounts set redemptions_count = 1 where id = $1', [id]))
  expect(await change({ amounts: { usd: 700 } })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'amounts'] }] } })
  expect((await change({ amounts: { usd: 600 }, name: 'Six off', max_redemptions: 5, ends_at: '2030-01-01T00:00:00Z' })).status).toBe(200)
})
