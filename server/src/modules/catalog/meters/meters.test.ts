import {
  accountLimits,
  createMeter,
  createProduct,
  getMeter,
  listMeters,
  updateMeter,
  updateProduct,
  type Aggregation,
  type Filter,
  type FilterClause,
} from '@bursar/contract'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { aggregate } from '../calc/aggregations.ts'
import { matches } from '../calc/compiled-filters.ts'
import { textOf, type Counted } from '../calc/filters.ts'
import { aggregateSql } from './aggregations.sql.ts'
import { filterSql } from './filters.sql.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const counting = { name: 'API calls', filter: { conjunction: 'and' as const, clauses: [] }, aggregation: { func: 'count' as const } }
const nested: Filter = {
  conjunction: 'or',
  clauses: [
    { property: 'name', operator: 'eq', value: 'call' },
    { conjunction: 'and', clauses: [{ property: 'metadata.tokens', operator: 'gte', value: 10 }] },
  ],
}

describe('meters', () => {
  test('creates, reads, lists and updates a meter with nested filters', async () => {
    const { api, organization } = await world.shop()
    const made = await api.call(createMeter, {
      body: { ...counting, filter: nested, aggregation: { func: 'sum', property: 'tokens' }, metadata: { team: 'a' } },
    })
    expect(made).toMatchObject({ name: 'API calls', unit: 'scalar', custom_label: null, filter: nested, archived_at: null, organization_id: organization.id })
    expect(await api.call(getMeter, { params: { id: made.id } })).toEqual(made)
    const other = await api.call(createMeter, { body: { ...counting, name: 'Storage', unit: 'custom', custom_label: 'GB hours', custom_multiplier: 1000 } })
    const names = async (query: object) => (await api.call(listMeters, { query })).items.map(({ name }) => name)
    expect(await names({})).toEqual(['API calls', 'Storage'])
    expect(await names({ sorting: '-created_at' })).toEqual(['Storage', 'API calls'])
    expect(await names({ query: 'stor' })).toEqual(['Storage'])
    expect(await names({ metadata: { team: 'a' } })).toEqual(['API calls'])
    const changed = await api.call(updateMeter, {
      params: { id: other.id },
      body: { name: 'Disk', aggregation: { func: 'unique', property: 'disk' }, is_archived: true },
    })
    expect(changed).toMatchObject({
      name: 'Disk',
      aggregation: { func: 'unique', property: 'disk' },
      archived_at: expect.any(String) as string,
      custom_label: 'GB hours',
    })
    expect(await names({ is_archived: true })).toEqual(['Disk'])
    expect((await api.call(updateMeter, { params: { id: other.id }, body: { is_archived: false } })).archived_at).toBeNull()
  })

  test('rejects an invalid meter with the location of the problem', async () => {
    const { api } = await world.shop()
    const place = async (body: object) => {
      const answer = await api.sendRaw(createMeter, { body: { ...counting, ...body } })
      expect(answer.status).toBe(422)
      return (answer.body as { detail: { loc: unknown[] }[] }).detail[0]!.loc.slice(0, 2)
    }
    expect(await place({ name: 'ab' })).toEqual(['body', 'name'])
    expect(await place({ unit: 'custom' })).toEqual(['body', 'custom_label'])
    expect(await place({ custom_multiplier: 0 })).toEqual(['body', 'custom_multiplier'])
    expect(await place({ aggregation: { func: 'median', property: 'x' } })).toEqual(['body', 'aggregation'])
    expect(await place({ aggregation: { func: 'sum' } })).toEqual(['body', 'aggregation'])
    expect(await place({ filter: { conjunction: 'xor', clauses: [] } })).toEqual(['body', 'filter'])
    const deep = (levels: number): Filter => ({ conjunction: 'and', clauses: levels === 0 ? [] : [deep(levels - 1)] })
    expect(await place({ filter: deep(6) })).toEqual(['body', 'filter'])
    const of = (property: string, value = 'x'): Filter => ({
      conjunction: 'or',
      clauses: Array.from({ length: 21 }, () => ({ property, operator: 'eq', value })),
    })
    expect(await place({ filter: of('a', 'x'.repeat(1000)) })).toEqual(['body', 'filter'])
    expect(await place({ filter: of('a.a.a.a.a.a.a.a.a') })).toEqual(['body', 'filter'])
    expect(await place({ aggregation: { func: 'sum', property: 'a.a.a.a.a.a.a.a.a' } })).toEqual(['body', 'aggregation'])
    const eight = 'metadata.a.a.a.a.a.a.a.a'
    expect((await api.send(createMeter, { body: { ...counting, filter: of(eight), aggregation: { func: 'sum', property: eight } } })).status).toBe(201)
    const made = await api.call(createMeter, { body: { ...counting, unit: 'custom', custom_label: 'runs' } })
    expect((await api.send(updateMeter, { params: { id: made.id }, body: { custom_label: null } })).status).toBe(422)
  })

  test('rejects a meter above the limit, and allows it after another one was archived', async () => {
    const { api, organization } = await world.shop()
    const made = await api.call(createMeter, { body: counting })
    await world.database.owner((owner) =>
      owner.query(
        `insert into meters select (jsonb_populate_record(null::meters, to_jsonb(m) || jsonb_build_object('id', gen_random_uuid()))).*
         from meters m, generate_series(2, $2) where organization_id = $1`,
        [organization.id, accountLimits.meters_per_organization],
      ),
    )
    const msg = expect.stringContaining('has 100 meters that count events. At most 100 are allowed') as string
    expect(await api.send(createMeter, { body: counting })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body'], msg }] } })
    const archive = (is_archived: boolean) => api.send(updateMeter, { params: { id: made.id }, body: { is_archived } })
    expect((await archive(true)).status).toBe(200)
    expect((await api.send(createMeter, { body: counting })).status).toBe(201)
    expect(await archive(false)).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'is_archived'], msg }] } })
  })

  test('rejects a filter above the limit of clauses of all meters, and allows it after another meter was archived', async () => {
    const { api } = await world.shop()
    const of = (count: number): Filter => ({
      conjunction: 'or',
      clauses: Array.from({ length: count }, () => ({
        conjunction: 'or',
        clauses: Array.from({ length: 48 }, () => ({ property: 'a', operator: 'eq', value: 1 })),
      })),
    })
    const make = (count: number) => api.send(createMeter, { body: { ...counting, filter: of(count) } })
    const meters = await Promise.all(Array.from({ length: 10 }, () => api.call(createMeter, { body: { ...counting, filter: of(4) } })))
    const msg = expect.stringContaining('At most 2000 are allowed') as string
    expect(await make(1)).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'filter'], msg }] } })
    const change = (at: number, body: object) => api.send(updateMeter, { params: { id: meters[at]!.id }, body })
    expect((await change(0, { filter: of(3) })).status).toBe(200)
    expect((await make(1)).status).toBe(201)
    expect(await change(0, { filter: of(4) })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'filter'], msg }] } })
    expect((await change(1, { is_archived: true })).status).toBe(200)
    expect((await change(0, { filter: of(4) })).status).toBe(200)
    expect(await change(1, { is_archived: false })).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'is_archived'], msg }] } })
  })

  test('shows a meter in its metered price, and rejects archiving it while the price is on sale', async () => {
    const { api } = await world.shop()
    const meter = await api.call(createMeter, { body: counting })
    const price = { amount_type: 'metered_unit' as const, meter_id: meter.id, unit_amount: '0.25', cap_amount: 5000 }
    const product = await api.call(createProduct, { body: { name: 'Metered', recurring_interval: 'month', prices: [price] } })
    expect(product.prices).toMatchObject([
      { amount_type: 'metered_unit', unit_amount: '0.25', cap_amount: 5000, meter_id: meter.id, meter: { id: meter.id, name: 'API calls', unit: 'scalar' } },
    ])
    const archive = () => api.send(updateMeter, { params: { id: meter.id }, body: { is_archived: true } })
    expect(await archive()).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'is_archived'] }] } })
    await api.call(updateProduct, { params: { id: product.id }, body: { is_archived: true } })
    expect((await archive()).status).toBe(200)
    expect((await api.send(createProduct, { body: { name: 'Again', recurring_interval: 'month', prices: [price] } })).status).toBe(422)
    expect((await api.send(createProduct, { body: { name: 'Once', prices: [price] } })).status).toBe(422)
    const stranger = await world.shop()
    expect((await stranger.api.send(createProduct, { body: { name: 'Theirs', recurring_interval: 'month', prices: [price] } })).status).toBe(422)
  })
})

/** Numbers with more digits than a double has, and numbers that are equal but written differently. */
const exact = fc
  .constantFrom('0.1234567890123456', '12345.678901234567', '12.0', '12.00', '1e2', '-0.0', '0.300000000000000004', '99999.999999999999')
  .map((text) => JSON.rawJSON(text))

describe('filters', () => {
  const event: Counted = {
    name: 'call',
    source: 'user',
    timestamp: new Date('2026-01-02T03:04:05.678Z'),
    metadata: { model: 'gpt', tokens: 12, free: true, nested: { a: 1, deep: { b: 'x' } }, 'dotted.key': 7, dotted: { key: 8 }, list: [{ a: 1 }] },
  }
  const clause = (property: string, operator: FilterClause['operator'], value: FilterClause['value']) => matches({ property, operator, value }, event)

  test('a filter compares each property by the type of its value, and never matches an absent property', () => {
    expect(clause('name', 'eq', 'call')).toBe(true)
    expect(clause('metadata.model', 'like', 'p')).toBe(true)
    expect(clause('model', 'not_like', 'P')).toBe(true)
    expect(clause('tokens', 'gte', 12)).toBe(true)
    expect(clause('tokens', 'eq', '12')).toBe(false)
    expect(clause('tokens', 'ne', '12')).toBe(false)
    expect(clause('tokens', 'like', 2)).toBe(true)
    expect(clause('free', 'eq', true)).toBe(true)
    expect(clause('free', 'eq', 1)).toBe(false)
    expect(clause('timestamp', 'eq', 1767323045)).toBe(true)
    expect(clause('absent', 'ne', 'x')).toBe(false)
    expect(clause('absent', 'not_like', 'x')).toBe(false)
    expect(clause('nested', 'ne', 'x')).toBe(false)
    expect(clause('__proto__', 'ne', 'x')).toBe(false)
    expect(clause('nested.__proto__.a', 'ne', 'x')).toBe(false)
    expect(matches({ conjunction: 'or', clauses: [] }, event)).toBe(true)
    for (const [value, text] of [
      [1e21, '1000000000000000000000'],
      [1.5e-7, '0.00000015'],
      [-2.5e22, '-25000000000000000000000'],
      [12.5, '12.5'],
    ] as const)
      expect(textOf(value)).toBe(text)
  })

  test('a property with dots is a path into the metadata, unless the metadata has a key of that name', () => {
    expect(clause('nested.a', 'eq', 1)).toBe(true)
    expect(clause('metadata.nested.deep.b', 'eq', 'x')).toBe(true)
    expect(clause('nested.a.b', 'ne', 1)).toBe(false)
    expect(clause('list.0.a', 'eq', 1)).toBe(false)
    expect(clause('dotted.key', 'eq', 7)).toBe(true)
    const costs = ['0.123456789012', '99999.999999999999', '1e-12'].map((amount) => ({
      ...event,
      metadata: { _cost: { amount: JSON.rawJSON(amount), currency: 'usd' } },
    }))
    expect(aggregate({ func: 'sum', property: '_cost.amount' }, costs)).toBe('100000.123456789012')
    expect(aggregate({ func: 'max', property: '_cost.amount' }, costs)).toBe('99999.999999999999')
    expect(matches({ property: '_cost.amount', operator: 'lt', value: 100_000 }, costs[1]!)).toBe(true)
    expect(matches({ property: '_cost.amount', operator: 'like', value: '.999999999999' }, costs[1]!)).toBe(true)
  })

  test('10,000 random filters over random events give the same result in the database and in memory', async () => {
    const words = fc.constantFrom('call', 'ca', '', 'C', 'é', '𝔘', '￿', '5', '12', 'true', 't', '%', '_', '\\', '1e21')
    const numbers = fc.oneof(fc.integer({ min: -20, max: 20 }), fc.constantFrom(0.5, 1e21, 1.5e-7, -0.001, 1767323045, 2_147_483_647))
    const scalar = fc.oneof(words, numbers, fc.boolean())
    const keys = ['a', 'b', 'name', 'x y', 'metadata.a', 'a.b', '_cost']
    const inner = fc.dictionary(fc.constantFrom('a', 'b', '0', 'amount'), fc.oneof(scalar, exact, fc.constant(null), fc.constant({ a: 2, b: 'b' })), {
      noNullPrototype: true,
    })
    const metadata = fc.dictionary(fc.constantFrom(...keys), fc.oneof(scalar, exact, inner, fc.constant(null), fc.constant([1]), fc.constant([{ a: 1 }])), {
      noNullPrototype: true,
    })
    const moment = fc.date({ min: new Date('2025-12-31T23:59:58Z'), max: new Date('2026-01-01T00:00:03Z'), noInvalidDate: true })
    const counted = fc.record({ name: words, source: fc.constantFrom('user', 'system'), timestamp: moment, metadata })
    const leaf = fc.record({
      property: fc.constantFrom(
        'name',
        'source',
        'timestamp',
        'a',
        'metadata.a',
        'b',
        'x y',
        'absent',
        'metadata.name',
        'a.b',
        'a.b.a',
        'b.0',
        '_cost.amount',
        'metadata._cost.a',
      ),
      operator: fc.constantFrom('eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'like', 'not_like'),
      value: fc.oneof(words, fc.integer({ min: -20, max: 20 }), fc.constantFrom(1767225600, 1767225601), fc.boolean()),
    })
    const { filter } = fc.letrec<{ filter: Filter; clause: FilterClause | Filter }>((tie) => ({
      clause: fc.oneof({ depthSize: 'small', withCrossShrink: true }, leaf, tie('filter')),
      filter: fc.record({ conjunction: fc.constantFrom('and', 'or'), clauses: fc.array(tie('clause'), { maxLength: 4 }) }),
    }))
    const batches = fc.record({ events: fc.array(counted, { minLength: 10, maxLength: 10 }), filters: fc.array(filter, { minLength: 100, maxLength: 100 }) })
    let filters = 0
    await fc.assert(
      fc.asyncProperty(batches, async (batch) => {
        const rows = JSON.stringify(batch.events.map((one, at) => ({ ...one, at })))
        const verdicts = sql.join(batch.filters.map((one) => sql`coalesce(${filterSql(one)}, false)`))
        const found = await sql<{ verdicts: boolean[] }>`
          select array[${verdicts}] as verdicts from jsonb_to_recordset(${rows}::jsonb) as e(at int, name text, source text, timestamp timestamptz, metadata jsonb)
          order by at`.execute(world.api.postgres.db.q)
        filters += batch.filters.length
        expect(found.rows.map((row) => row.verdicts)).toEqual(batch.events.map((one) => batch.filters.map((filter_) => matches(filter_, one))))
      }),
      { numRuns: 100 },
    )
    expect(filters).toBe(10_000)
  })

  test('aggregations give the same exact result in the database and in memory', async () => {
    const numbers = fc.oneof(
      fc.integer({ min: -1000, max: 1000 }),
      fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e9, max: 1e9 }),
      fc.constantFrom(0.1, 0.2, 1e21, 1.5e-7, 5e-324),
    )
    const value = fc.oneof(
      { weight: 6, arbitrary: fc.oneof(numbers, exact) },
      fc.constantFrom('1', 'a', '', true, false, null, [1]),
      fc.record({ amount: fc.oneof(numbers, exact, fc.constant('1')) }),
    )
    const counted = fc.record({
      name: fc.constantFrom('a', 'b'),
      source: fc.constant('user'),
      timestamp: fc.constantFrom(new Date(1_767_225_600_999), new Date(1_767_225_601_000)),
      metadata: fc.dictionary(fc.constantFrom('a', 'b'), value, { noNullPrototype: true }),
    })
    const property = fc.constantFrom('a', 'metadata.a', 'b', 'absent', 'name', 'timestamp', 'a.amount', 'metadata.b.amount')
    const aggregation = fc.oneof(
      fc.constant({ func: 'count' as const }),
      fc.record({ func: fc.constantFrom('sum' as const, 'max' as const, 'min' as const, 'avg' as const, 'unique' as const), property }),
    ) as fc.Arbitrary<Aggregation>
    const batches = fc.record({ events: fc.array(counted, { maxLength: 12 }), aggregations: fc.array(aggregation, { minLength: 50, maxLength: 50 }) })
    await fc.assert(
      fc.asyncProperty(batches, async ({ events, aggregations }) => {
        const rows = JSON.stringify(events)
        const found = await sql<{ quantities: string[] }>`
          select array[${sql.join(aggregations.map(aggregateSql))}] as quantities
          from jsonb_to_recordset(${rows}::jsonb) as e(name text, source text, timestamp timestamptz, metadata jsonb)`.execute(world.api.postgres.db.q)
        expect(found.rows[0]!.quantities).toEqual(aggregations.map((one) => aggregate(one, events)))
      }),
      { numRuns: 100 },
    )
    expect(
      aggregate(
        { func: 'sum', property: 'a' },
        [0.1, 0.2].map((a) => ({ name: 'x', source: 'user', timestamp: world.clock.wall(), metadata: { a } })),
      ),
    ).toBe('0.3')
  })
})
