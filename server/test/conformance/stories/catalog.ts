import assert from 'node:assert/strict'
import type { Story } from '../run.ts'

/** Creates custom fields and products with several kinds of prices, changes them and deletes them. */
export const catalog: Story = async ({ world, clients }) => {
  const organization = await world.organization()
  const token = (await organization.token()).secret.reveal()

  const current = clients.current(token)
  for (const [type, properties] of Object.entries({
    text: { max_length: 10 },
    number: { ge: 1 },
    date: {},
    checkbox: {},
    select: { options: [{ value: 'a', label: 'A' }] },
  }))
    await current.customFields.create({ type, slug: `${type}-field`, name: type, properties } as never)
  const field = (await current.customFields.list({ query: 'text' })).items[0]!
  assert.equal((await current.customFields.get(field.id)).slug, 'text-field')
  assert.equal((await current.customFields.update(field.id, { type: 'text', name: 'Renamed' })).name, 'Renamed')

  const rule = { conjunction: 'and' as const, clauses: [{ property: 'name', operator: 'eq' as const, value: 'call' }] }
  const meter = await current.meters.create({ name: 'Calls', filter: rule, aggregation: { func: 'sum', property: 'tokens' } })
  assert.equal((await current.meters.get(meter.id)).name, 'Calls')
  assert.equal((await current.meters.update(meter.id, { name: 'API calls' })).name, 'API calls')
  assert.equal((await current.meters.list({})).items.length, 1)

  const made = await current.products.create({
    name: 'Team plan',
    recurring_interval: 'month',
    trial_interval: 'day',
    trial_interval_count: 14,
    metadata: { plan: 'team', rank: 1, beta: true },
    prices: [
      { amount_type: 'fixed', price_amount: 900 },
      { amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '0.5', cap_amount: null },
      {
        amount_type: 'seat_based',
        seat_tiers: {
          seat_tier_type: 'graduated',
          tiers: [
            { min_seats: 1, max_seats: 10, price_per_seat: 800 },
            { min_seats: 11, price_per_seat: 600 },
          ],
        },
      },
    ],
    attached_custom_fields: [{ custom_field_id: field.id, required: true }],
  } as never)
  assert.deepEqual(
    made.prices.map(({ amount_type }) => amount_type),
    ['fixed', 'metered_unit', 'seat_based'],
  )
  assert.equal((await current.products.get(made.id)).attached_custom_fields[0]?.custom_field.slug, 'text-field')
  assert.deepEqual(
    (await current.products.list({ metadata: { plan: 'team' } })).items.map(({ id }) => id),
    [made.id],
  )
  const changed = await current.products.update(made.id, { prices: [{ id: made.prices[0]!.id }] })
  assert.deepEqual(
    changed.prices.map(({ id }) => id),
    [made.prices[0]!.id],
  )
  await assert.rejects(current.products.create({ name: 'No price', prices: [] }), (error: { name: string }) => error.name === 'HTTPValidationError')
  const gift = await current.benefits.create({ type: 'custom', description: 'A handshake', properties: { note: 'Psst' } } as never)
  assert.equal((await current.benefits.get(gift.id)).description, 'A handshake')
  assert.equal((await current.benefits.update(gift.id, { type: 'custom', description: 'A wink' } as never)).description, 'A wink')
  assert.equal((await current.benefits.list({})).items.length, 1)
  assert.deepEqual(
    (await current.products.updateBenefits(made.id, { benefits: [gift.id] })).benefits.map(({ id }) => id),
    [gift.id],
  )
  await current.benefits.delete(gift.id)
  const off = await current.discounts.create({
    name: 'Tenth',
    type: 'percentage',
    duration: 'once',
    basis_points: 1000,
    code: 'TENTH',
    products: [made.id],
  } as never)
  assert.equal((await current.discounts.get(off.id)).code, 'TENTH')
  assert.equal((await current.discounts.update(off.id, { name: 'A tenth', products: [] })).name, 'A tenth')
  assert.equal((await current.discounts.list({})).items.length, 1)
  await current.discounts.delete(off.id)
  await current.products.delete(made.id)
  await current.customFields.delete(field.id)

  const strict = clients.strict(token)
  const counted = await strict.meters.create({ name: 'Runs', filter: { ...rule, clauses: [rule] }, aggregation: { func: 'count' } })
  assert.equal((await strict.meters.get({ id: counted.id })).aggregation.func, 'count')
  await strict.meters.update({ id: counted.id, meterUpdate: { isArchived: true } })
  const meters: string[] = []
  for await (const page of await strict.meters.list({ isArchived: false })) meters.push(...page.result.items.map(({ name }) => name))
  assert.deepEqual(meters, ['API calls'])
  const asked = await strict.customFields.create({ type: 'select', slug: 'size', name: 'Size', properties: { options: [{ value: 's', label: 'Small' }] } })
  assert.equal((await strict.customFields.get({ id: asked.id })).slug, 'size')
  await strict.customFields.update({ id: asked.id, customFieldUpdate: { type: 'select', name: 'T-shirt size' } })
  const slugs: string[] = []
  for await (const page of await strict.customFields.list({ limit: 2 })) slugs.push(...page.result.items.map(({ slug }) => slug))
  assert.deepEqual(slugs, ['checkbox-field', 'date-field', 'number-field', 'select-field', 'size'])
  const shirt = await strict.products.create({
    name: 'T-shirt',
    prices: [{ amountType: 'custom', minimumAmount: 500, presetAmount: 1500 }],
    attachedCustomFields: [{ customFieldId: asked.id, required: false }],
  })
  assert.equal((await strict.products.get({ id: shirt.id })).prices[0]?.amountType, 'custom')
  assert.equal((await strict.products.update({ id: shirt.id, productUpdate: { isArchived: true } })).isArchived, true)
  const names: string[] = []
  for await (const page of await strict.products.list({ isArchived: true })) names.push(...page.result.items.map(({ name }) => name))
  assert.deepEqual(names, ['T-shirt'])
  const keys = await strict.benefits.create({
    type: 'license_keys',
    description: 'Keys',
    properties: { prefix: 'ACME', expires: { ttl: 1, timeframe: 'year' }, activations: { limit: 3, enableCustomerAdmin: true } },
  })
  const credit = await strict.benefits.create({ type: 'meter_credit', description: 'Credit', properties: { units: 10, rollover: false, meterId: meter.id } })
  assert.equal((await strict.benefits.get({ id: keys.id })).type, 'license_keys')
  await strict.benefits.update({ id: credit.id, requestBody: { type: 'meter_credit', description: 'More credit' } })
  const gifts: string[] = []
  for await (const page of await strict.benefits.list({ sorting: ['created_at'] })) gifts.push(...page.result.items.map(({ description }) => description))
  assert.deepEqual(gifts, ['Keys', 'More credit'])
  assert.equal((await strict.products.updateBenefits({ id: shirt.id, productBenefitsUpdate: { benefits: [credit.id, keys.id] } })).benefits.length, 2)
  await strict.benefits.delete({ id: credit.id })
  const cheaper = await strict.discounts.create({
    name: 'Five',
    type: 'fixed',
    duration: 'repeating',
    durationInMonths: 3,
    amounts: { usd: 500 },
    products: [shirt.id],
  } as never)
  assert.equal((await strict.discounts.get({ id: cheaper.id })).name, 'Five')
  await strict.discounts.update({ id: cheaper.id, discountUpdate: { name: 'Five off', maxRedemptions: 10 } })
  const offers: string[] = []
  for await (const page of await strict.discounts.list({})) offers.push(...page.result.items.map(({ name }) => name))
  assert.deepEqual(offers, ['Five off'])
  await strict.discounts.delete({ id: cheaper.id })
  await strict.customFields.delete({ id: asked.id })
}
