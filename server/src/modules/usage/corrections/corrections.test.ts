import { correctEvents, deleteCustomer, getMeterQuantities, getUsageEvent, ingestEvents, listEventNames, listUsageEvents } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  aggregations,
  correct,
  customerOf,
  meterOf,
  metersOf,
  openUsage,
  replacing,
  send,
  start,
  voiding,
  type Correction,
  type Shop,
  type Usage,
} from '../../../../test/harness/corrections.ts'
import { aggregate } from '../../catalog/calc/aggregations.ts'
import type { Counted } from '../../catalog/calc/filters.ts'
import { mergeUsage } from '../counting/merging.ts'

let usage: Usage
beforeAll(async () => {
  usage = await openUsage()
})
afterAll(() => usage.close())

const refusal = async (shop: Shop, ...corrections: Correction[]) => {
  const { status, body } = await shop.api.send(correctEvents, { body: { corrections: corrections as never } })
  return [status, (body as { detail?: { loc: (string | number)[]; msg: string }[] }).detail?.map(({ loc }) => loc.join('.'))]
}

test('corrected events no longer count on any meter, whether counted by ingest or by backfill, merged or not', async () => {
  const shop = await usage.world.shop()
  const early = await metersOf(shop)
  await usage.backfill()
  const customer = await customerOf(shop, 'ada')
  const units: unknown[] = [5, 5, -3, 0.1, 'text', 99, 1e-7, 7, 7, 2, true, 12, 4, 4, 3, 3, 8, -9, 6, 1]
  await send(shop, customer.id, units, 170_000)
  const late = await metersOf(shop)
  const meters = [...early, ...late]
  const stands = new Map<string, unknown>(units.map((value, at) => [`e${at}`, value]))
  const check = async (stage: string) => {
    const events = [...stands.values()].map((value): Counted => ({ name: 'call', source: 'user', timestamp: new Date(start), metadata: { units: value } }))
    const expected = aggregations.map((aggregation) => aggregate(aggregation, events))
    expect([stage, await usage.consumedOf(shop, customer.id, meters)]).toEqual([stage, [...expected, ...expected]])
  }
  const replaceWith = (id: string, value: unknown) => {
    stands.set(id, value)
    return replacing(id, { name: 'call', customer_id: customer.id, metadata: { units: value } })
  }
  const dropped = (id: string) => {
    stands.delete(id)
    return voiding(id)
  }
  await check('at the start')
  await correct(shop, dropped('e5'), replaceWith('e0', 50))
  await check('before the backfill')
  await usage.backfill()
  await check('after the backfill')
  await correct(shop, dropped('e17'), dropped('e7'), replaceWith('e2', 'text'))
  await check('before the merge')
  await mergeUsage(usage.deployment.deps)
  await check('after the merge')
  await correct(shop, dropped('e8'), dropped('e1'), replaceWith('e3', -40), dropped('e10'))
  await mergeUsage(usage.deployment.deps)
  await check('after another merge')
  await correct(shop, ...[...stands.keys()].filter((id) => !['e0', 'e2', 'e3'].includes(id)).map(dropped))
  await check('after most are voided')
  await mergeUsage(usage.deployment.deps)
  await check('at the end')
  const { rows } = await usage.world.database.owner((owner) =>
    owner.query('select 1 from usage_quarters where organization_id = $1 and (count <= 0 or not is_merged)', [shop.organization.id]),
  )
  expect(rows).toEqual([])
})

test('the same correction changes nothing the second time, and another correction of the same event is refused', async () => {
  const shop = await usage.world.shop()
  const meters = await metersOf(shop)
  await usage.backfill()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1, 2, 3])
  const replacement = { name: 'call', customer_id: customer.id, metadata: { units: 20 } }
  const first = await correct(shop, voiding('e0'), replacing('e1', replacement), voiding('e0'))
  expect([first.corrected, first.duplicates]).toEqual([2, 1])
  expect(first.corrections[2]).toEqual(first.corrections[0])
  const ids = first.corrections.map(({ event_id }) => event_id)
  // The fields in another sequence, and the id instead of the external id.
  const { metadata, ...fields } = replacement
  const again = await correct(shop, voiding(ids[0]!), replacing(ids[1]!, { metadata, ...fields }))
  expect([again.corrected, again.duplicates]).toEqual([0, 2])
  expect(again.corrections).toEqual(first.corrections.slice(0, 2))
  const left = ['2', '23', '20', '3', '11.5', '2']
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(left)

  expect(await refusal(shop, replacing('e0', replacement))).toEqual([422, ['body.corrections.0.event_id']])
  expect(await refusal(shop, voiding('e1'))).toEqual([422, ['body.corrections.0.event_id']])
  expect(await refusal(shop, replacing('e1', { ...replacement, metadata: { units: 21 } }))).toEqual([422, ['body.corrections.0.event_id']])
  expect(await refusal(shop, voiding('e2'), replacing('e2', replacement))).toEqual([422, ['body.corrections.1.event_id']])
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(left)

  // The replacement itself can be corrected. An event that is sent again stays a duplicate.
  await correct(shop, voiding(first.corrections[1]!.replacement_id!))
  expect(await send(shop, customer.id, [1, 2, 3])).toEqual({ inserted: 0, duplicates: 3 })
  expect(await usage.consumedOf(shop, customer.id, meters)).toEqual(['1', '3', '3', '3', '3', '1'])
})

test('keeps all digits of a replacement, and recognises it by all of them', async () => {
  const shop = await usage.world.shop()
  const meter = await meterOf(shop, { func: 'sum', property: 'units' })
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1])
  const body = (number: string) =>
    `{"corrections":[{"action":"replace","event_id":"e0","reason":"r","replacement":{"name":"call","customer_id":"${customer.id}","metadata":{"units":${number}}}}]}`
  const token = (await shop.organization.token()).secret.reveal()
  const post = async (number: string) =>
    (
      await fetch(`http://127.0.0.1:${usage.world.port}${correctEvents.path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: body(number),
      })
    ).status
  expect(await post('12345678901234567890.5')).toBe(200)
  expect(await usage.consumedOf(shop, customer.id, [meter])).toEqual(['12345678901234567890.5'])
  expect(await post('12345678901234567890.5')).toBe(200)
  expect(await post('12345678901234567890.6')).toBe(422)
})

test('the replacement keeps the time of the event, unless it has its own, and may have another customer', async () => {
  const shop = await usage.world.shop()
  const meter = await meterOf(shop, { func: 'sum', property: 'units' })
  const [ada, bob] = [await customerOf(shop, 'ada'), await customerOf(shop, 'bob')]
  await send(shop, ada.id, [1, 2])
  const { corrections } = await correct(
    shop,
    replacing('e0', { name: 'call', external_customer_id: 'bob', external_id: 'mine', metadata: { units: 4 } }),
    replacing('e1', { name: 'call', customer_id: bob.id, timestamp: '2026-01-01T00:00:00Z', metadata: { units: 8 } }),
  )
  expect([await usage.consumedOf(shop, ada.id, [meter]), await usage.consumedOf(shop, bob.id, [meter])]).toEqual([['0'], ['12']])
  const times = await Promise.all(
    corrections.map(async ({ replacement_id }) => (await shop.api.call(getUsageEvent, { params: { id: replacement_id! } })).timestamp),
  )
  expect(times.map((time) => new Date(time).toISOString())).toEqual([new Date(start).toISOString(), '2026-01-01T00:00:00.000Z'])
  expect((await correct(shop, voiding('mine'))).corrections[0]!.event_id).toBe(corrections[0]!.replacement_id)
})

test('refuses corrections that are not valid, and then changes nothing', async () => {
  const shop = await usage.world.shop()
  const other = await usage.world.shop()
  const meters = await metersOf(shop)
  const customer = await customerOf(shop, 'ada')
  const theirs = await customerOf(other, 'ada')
  await send(shop, customer.id, [1, 2])
  await send(other, theirs.id, [1, 2])
  const foreign = (await other.api.call(listUsageEvents, {})).items[0]!.id
  const replacement = { name: 'call', customer_id: customer.id }
  const cases: [Correction[], string][] = [
    [[voiding('e0'), voiding('unknown')], 'body.corrections.1.event_id'],
    [[voiding('e0'), voiding(foreign)], 'body.corrections.1.event_id'],
    [[voiding('e0'), replacing('e1', { ...replacement, customer_id: theirs.id })], 'body.corrections.1.replacement.customer_id'],
    [[voiding('e0'), replacing('e1', { ...replacement, external_id: 'e1' })], 'body.corrections.1.replacement.external_id'],
    [[voiding('e0'), replacing('e1', { ...replacement, timestamp: '2999-01-01T00:00:00Z' })], 'body.corrections.1.replacement.timestamp'],
    [[voiding('e0'), replacing('e1', { ...replacement, unit: 1 })], 'body.corrections.1.replacement.unit'],
    [[voiding('e0'), { ...voiding('e1'), replacment: replacement }], 'body.corrections.1'],
    [[voiding('e0'), { ...voiding('e1'), action: 'delete' }], 'body.corrections.1.action'],
    [[voiding('e0'), { ...voiding('e1'), reason: '' }], 'body.corrections.1.reason'],
    [Array.from({ length: 1001 }, () => voiding('e0')), 'body.corrections'],
  ]
  for (const [corrections, place] of cases) expect([place, await refusal(shop, ...corrections)]).toEqual([place, [422, [place]]])
  expect((await usage.consumedOf(shop, customer.id, meters))[0]).toBe('2')
  expect((await correct(shop)).corrected).toBe(0)
})

test('lists leave corrected events out and count without them, and show them on request', async () => {
  const shop = await usage.world.shop()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1, 2, 3])
  await shop.api.call(ingestEvents, { body: { events: [{ name: 'child', customer_id: customer.id, external_id: 'child', parent_id: 'e0' }] } })
  const { corrections } = await correct(shop, voiding('child'), replacing('e1', { name: 'other', customer_id: customer.id }))
  const namesOf = async (query: Record<string, unknown>) => {
    const { items, pagination } = await shop.api.call(listUsageEvents, { query: { source: ['user'], sorting: ['timestamp'], ...query } })
    return [items.map(({ name }) => name).toSorted(), 'total_count' in pagination ? pagination.total_count : undefined]
  }
  expect(await namesOf({})).toEqual([['call', 'call', 'other'], 3])
  expect(await namesOf({ customer_id: customer.id })).toEqual([['call', 'call', 'other'], 3])
  expect(await namesOf({ cursor_pagination: true })).toEqual([['call', 'call', 'other'], undefined])
  expect(await namesOf({ corrected: true })).toEqual([['call', 'child'], 2])
  expect(await namesOf({ corrected: true, name: 'child' })).toEqual([['child'], 1])
  expect(await namesOf({ corrected: true, cursor_pagination: true })).toEqual([['call', 'child'], undefined])

  const counts = async (query: Record<string, unknown>) =>
    (await shop.api.call(listEventNames, { query: { source: ['user'], sorting: ['name'], ...query } })).items.map(({ name, occurrences }) => [
      name,
      occurrences,
    ])
  const expected = [
    ['call', 2],
    ['other', 1],
  ]
  expect([await counts({}), await counts({ customer_id: customer.id })]).toEqual([expected, expected])

  const get = async (id: string) => (await shop.api.call(getUsageEvent, { params: { id } })) as { correction: unknown; child_count: number; name: string }
  const replaced = await get(corrections[1]!.event_id)
  expect(replaced.correction).toEqual({ ...corrections[1], reason: 'wrong number' })
  expect((await get(corrections[1]!.replacement_id!)).correction).toBe(null)
  const parent = (await shop.api.call(listUsageEvents, { query: { source: ['user'], sorting: ['timestamp'] } })).items[0]!
  expect(parent.child_count).toBe(0)
})

test('a customer whose events were all corrected is not combined with others', async () => {
  const shop = await usage.world.shop()
  const meters = await Promise.all([meterOf(shop, { func: 'sum', property: 'units' }), meterOf(shop, { func: 'max', property: 'units' })])
  await usage.backfill()
  const [ada, bob] = [await customerOf(shop, 'ada'), await customerOf(shop, 'bob')]
  await send(shop, ada.id, [5])
  const at = new Date(start).toISOString()
  await shop.api.call(ingestEvents, { body: { events: [{ name: 'call', customer_id: bob.id, external_id: 'b', timestamp: at, metadata: { units: 9 } }] } })
  await correct(shop, voiding('e0'))
  const chart = (id: string, customer_aggregation_function: 'min' | 'count') =>
    shop.api.call(getMeterQuantities, {
      params: { id },
      query: { start_timestamp: '2026-01-05T00:00:00Z', end_timestamp: '2026-01-06T00:00:00Z', interval: 'day', customer_aggregation_function } as never,
    })
  for (const { id } of meters) expect([(await chart(id, 'min')).total, (await chart(id, 'count')).total]).toEqual([9, 1])
})

test('the audit log records corrections without the reason, and the reason is erased with the customer', async () => {
  const shop = await usage.world.shop()
  const customer = await customerOf(shop, 'ada')
  await send(shop, customer.id, [1])
  const { corrections } = await shop.api.call(correctEvents, {
    body: { corrections: [{ action: 'void', event_id: 'e0', reason: 'Ada complained by phone' }] },
    headers: { 'idempotency-key': 'complaint' },
  })
  const { rows: logged } = await usage.world.database.owner((owner) =>
    owner.query<{ text: string }>(`select row_to_json(a)::text as text from audit_log a where organization_id = $1`, [shop.organization.id]),
  )
  const own = logged.filter(({ text }) => text.includes(corrections[0]!.id))
  expect(own).toHaveLength(1)
  expect(own[0]!.text).not.toContain('Ada complained')
  await shop.api.send(deleteCustomer, { params: { id: customer.id }, query: { anonymize: true } })
  await usage.deployment.work()
  const { rows } = await usage.world.database.owner((owner) =>
    owner.query<{ reason: string | null }>('select reason from usage_corrections where organization_id = $1', [shop.organization.id]),
  )
  expect(rows).toEqual([{ reason: null }])
  const { rows: answers } = await usage.world.database.owner((owner) =>
    owner.query<{ text: string }>(`select row_to_json(k)::text as text from idempotency_keys k`),
  )
  expect(answers.filter(({ text }) => text.includes('Ada complained'))).toEqual([])
})
