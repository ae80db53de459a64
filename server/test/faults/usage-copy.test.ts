import { correctEvents, createCustomer, createMeter, ingestEvents, type Aggregation, type Filter, type FilterClause, type Meter } from '@bursar/contract'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { EventStoreSilent, EventStoreUnavailable, type EventServer, type EventStore } from '../../src/gateways/event-store/event-store.ts'
import { within } from '../../src/kernel/actors.ts'
import { copyUsage } from '../../src/modules/usage/copies/copying.ts'
import { verifyCopy } from '../../src/modules/usage/copies/verifying.ts'
import { monthOf, propertiesOf } from '../../src/modules/usage/calc/copied-rows.ts'
import { findMeter } from '../../src/modules/catalog/index.ts'
import { listUsageEvents } from '../../src/modules/usage/events/events.ts'
import { quantitiesOf } from '../../src/modules/usage/quantities/quantities.ts'
import { stopwatch } from '../../src/platform/clock.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { hasEventStore, openEventStore, type EventStoreProxy } from '../harness/event-stores.ts'
import { seededNumbers, type Numbers } from '../harness/metric-history.ts'
import { counted } from '../harness/pace.ts'
import { launch } from '../harness/process.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

test('names the properties of an event as filters do: by the whole name first, then by the path', () => {
  const { keys, kinds, texts, numbers, exact } = propertiesOf(
    '{"a": "x", "b": 1.50, "c": true, "d": null, "_cost": {"amount": 0.25, "x.y": 1}, "_llm.total": 3, "_llm": {"total": 4, "deep": {"n": 5}}}',
  )
  expect(keys.map((key, at) => [key, kinds[at], texts[at], numbers[at]!.rawJSON])).toEqual([
    ['a', 1, 'x', '0'],
    ['b', 2, '1.50', '1.50'],
    ['c', 3, 'true', '0'],
    ['d', 0, '', '0'],
    ['_cost', 0, '', '0'],
    ['_llm.total', 2, '3', '3'],
    ['_llm', 0, '', '0'],
    ['_cost.amount', 2, '0.25', '0.25'],
    ['_llm.deep', 0, '', '0'],
    ['_llm.deep.n', 2, '5', '5'],
  ])
  expect(exact).toBe(1)
  expect(propertiesOf('{"a": 0.1234567890123}').exact).toBe(0)
  expect(propertiesOf('{"a": 1234567890123456}').exact).toBe(0)
  expect(monthOf('01a1f517-0000-7000-8000-000000000000')).toBe(202611)
})

/** The same store, whose servers answer in another way. */
const withAsk = (store: EventStore, ask: (server: EventServer, ...rest: Parameters<EventServer['ask']>) => ReturnType<EventServer['ask']>): EventStore => ({
  ...store,
  servers: store.servers.map((server) => ({ ...server, ask: (...rest) => ask(server, ...rest) })),
})

/** Timeout of the tests with counts. The long counts take half an hour. */
const longest = 7_200_000

describe.runIf(hasEventStore)('with an event store', () => {
  let world: World
  let store: EventStoreProxy
  let deployment: Awaited<ReturnType<typeof openDeployment>>
  const copies = new Set<string>()
  beforeAll(async () => {
    store = await openEventStore()
    world = await openWorld({ settings: store.settings })
    deployment = await openDeployment(world, openLife(null))
  })
  afterEach(() => store.behave())
  afterAll(async () => {
    await store.drop([...copies])
    await deployment.close()
    await world.close()
    await store.close()
  })

  const owner = <T extends object>(statement: string, values: unknown[] = []) =>
    world.database.owner(async (client) => (await client.query<T>(statement, values)).rows)
  const current = async () => {
    const [copy] = await owner<{ id: string; listed: string; chunk: string; lease_until: Date | null }>(
      'select id, listed, chunk::text, lease_until from usage_copies',
    )
    if (copy) copies.add(copy.id)
    return copy
  }
  const mark = async () => (await current())!.id.replaceAll('-', '')
  const waiting = async () => (await owner<{ rows: number }>('select count(*)::int as rows from usage_uncopied'))[0]!.rows
  /** A failed step keeps its lease for a minute. The clock of the test does not wait for it. */
  const copyAll = () =>
    eventually('everything is copied', async () => {
      const copy = await current()
      if (copy?.lease_until) world.clock.advance(61_000)
      await copyUsage(deployment.deps)
      return (await current())?.listed === 'everything' && (await waiting()) === 0
    })
  const stored = async () => {
    const [events, corrected] = await owner<{ ids: string[] }>(
      `select coalesce(array_agg(id::text order by id), '{}') as ids from usage_events union all select coalesce(array_agg(event_id::text order by event_id), '{}') from usage_corrections`,
    )
    return { events: events!.ids, corrected: corrected!.ids }
  }
  const copied = async () => {
    const tables = await mark()
    const ids = async (kind: string) => (await store.ask(`select id from bursar_${kind}_${tables} order by id limit 1000000`)).map(([id]) => String(id))
    return { events: await ids('events'), corrected: [...new Set(await ids('corrected'))] }
  }

  const verify = async () => (await verifyCopy(deployment.deps.db, deployment.deps.gateways.eventStore!, undefined, () => undefined))!

  const words = ['eu', 'us', 'EU', "o'neill", 'a\\b', 'straße', '1', 'true', '日本']
  const anyValue = (numbers: Numbers): unknown =>
    numbers.pick([
      () => numbers.pick(words),
      () => numbers.below(5),
      () => numbers.below(1000) / 8 - 50,
      () => numbers.below(10_000_000) / 1000,
      () => numbers.chance(0.5),
    ])()
  const anyEvent = (numbers: Numbers, people: readonly string[]) => ({
    name: numbers.pick(['call', 'call', 'render', 'Call']),
    external_customer_id: numbers.pick(people),
    timestamp: new Date(Date.UTC(2026, 0, 1) + numbers.below(20 * 86_400) * 1000 + numbers.pick([0, 0, 1, 999])).toISOString(),
    metadata: {
      ...(numbers.chance(0.8) ? { units: anyValue(numbers) } : {}),
      ...(numbers.chance(0.8) ? { region: numbers.pick(words) } : {}),
      ...(numbers.chance(0.2) ? { 'x.y': anyValue(numbers) } : {}),
      ...(numbers.chance(0.3) ? { _cost: { amount: numbers.below(100_000) / 1000, currency: 'usd' } } : {}),
    },
  })
  const send = async (api: Awaited<ReturnType<World['shop']>>['api'], numbers: Numbers, people: readonly string[], count: number) => {
    const events = Array.from({ length: count }, () => anyEvent(numbers, people))
    await api.call(ingestEvents, { body: { events } as never })
  }
  const anyClause = (numbers: Numbers): FilterClause => {
    const property = numbers.pick(['units', 'region', 'metadata.region', 'x.y', '_cost.amount', 'name', 'source', 'timestamp', 'nothing'])
    const operator = numbers.pick(['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'like', 'not_like'] as const)
    const value =
      property === 'timestamp'
        ? Date.UTC(2026, 0, 1 + numbers.below(20)) / 1000
        : numbers.pick<FilterClause['value']>([numbers.pick(words), numbers.below(5), numbers.below(10_000) - 50, numbers.chance(0.5)])
    return { property, operator, value }
  }
  const anyFilter = (numbers: Numbers, depth = 0): Filter => ({
    conjunction: numbers.pick(['and', 'or'] as const),
    clauses: Array.from({ length: numbers.below(3) + (depth === 0 ? 1 : 0) }, () =>
      depth < 2 && numbers.chance(0.3) ? anyFilter(numbers, depth + 1) : anyClause(numbers),
    ),
  })
  const anyAggregation = (numbers: Numbers): Aggregation =>
    numbers.pick<Aggregation>([
      { func: 'count' },
      { func: 'unique', property: numbers.pick(['units', 'region', 'x.y', 'name', 'timestamp', '_cost.amount']) },
      ...(['sum', 'max', 'min', 'avg'] as const).map((func) => ({ func, property: numbers.pick(['units', '_cost.amount', 'x.y', 'timestamp', 'region']) })),
    ])

  const questions = counted('COPY_QUESTIONS', 200, 60)

  test(`answers as PostgreSQL does: ${questions} random questions, while a part of the events is not copied yet`, { timeout: longest }, async () => {
    const { api, organization } = await world.shop()
    const numbers = seededNumbers(7)
    const people = ['ada', 'bob', 'eve', 'ian']
    const customer = await api.call(createCustomer, { body: { email: 'ada@people.test', external_id: 'ada' } })
    for (let round = 0; round < 4; round++) await send(api, numbers, people, 400)
    const correctSome = async () => {
      const ids = await owner<{ id: string }>(
        `select id from usage_events where organization_id = $1 and corrected_at is null and depth = 0 order by md5(id::text) limit 20`,
        [organization.id],
      )
      await api.call(correctEvents, { body: { corrections: ids.map(({ id }) => ({ action: 'void', event_id: id, reason: 'a mistake' })) } as never })
    }
    await correctSome()
    await copyAll()
    const meters: Meter[] = []
    for (let made = 0; made < 40; made++) {
      const { id } = await api.call(createMeter, { body: { name: `Meter ${made}`, filter: anyFilter(numbers), aggregation: anyAggregation(numbers) } })
      meters.push((await findMeter(deployment.deps.db, within(organization.id, 'machine', 'before'), id))!)
    }
    await deployment.sweep('usage.backfill_meters')
    const scope = within(organization.id, 'machine', 'before')
    const { db } = deployment.deps
    const reader = { store: deployment.deps.gateways.eventStore!, log: world.base.log }
    const tally = { asked: 0, from_copy: 0, nonempty: 0 }
    const compare = async <T>(ask: (reading: typeof reader | undefined) => Promise<T>, question: object, isEmpty: (answer: T) => boolean) => {
      const before = store.statements()
      const fromCopy = await ask(reader)
      tally.asked++
      if (store.statements() > before) tally.from_copy++
      const plain = await ask(undefined)
      if (!isEmpty(plain)) tally.nonempty++
      expect([question, fromCopy]).toEqual([question, plain])
    }
    for (let at = 0; at < questions; at++) {
      // A part of the events and corrections waits for the copy, as in a running system.
      if (at % 20 === 10) {
        await send(api, numbers, people, 30)
        await correctSome()
      }
      if (at % 40 === 0) await copyAll()
      const metadata = numbers.chance(0.4) ? { [numbers.pick(['region', 'units'])]: [numbers.pick([...words, '3', '2.5'])] } : undefined
      const from = Date.UTC(2026, 0, 1) + numbers.below(10 * 86_400) * 1000
      // A range of hours has at most some days.
      const to = from + numbers.below(7 * 86_400) * 1000
      if (numbers.chance(0.5)) {
        const meter = numbers.pick(meters)
        const query = {
          start_timestamp: new Date(from),
          end_timestamp: new Date(to),
          interval: numbers.pick(['hour', 'day', 'week'] as const),
          timezone: numbers.pick(['UTC', 'Asia/Kathmandu', 'America/New_York']),
          metadata,
          customer_id: [],
          external_customer_id: [],
          customer_aggregation_function: undefined,
        }
        await compare(
          (reading) => quantitiesOf(db, scope, meter, query, reading),
          { filter: meter.filter, aggregation: meter.aggregation, query },
          ({ total }) => total === 0,
        )
      } else {
        const query = {
          organization_id: [],
          filter: numbers.chance(0.7) ? anyFilter(numbers) : undefined,
          meter_id: numbers.chance(0.2) ? numbers.pick(meters).id : undefined,
          start_timestamp: numbers.chance(0.5) ? new Date(from) : undefined,
          end_timestamp: numbers.chance(0.3) ? new Date(to) : undefined,
          name: numbers.chance(0.3) ? [numbers.pick(['call', 'render'])] : [],
          source: [],
          customer_id: numbers.chance(0.2) ? [customer.id] : [],
          external_customer_id: numbers.chance(0.2) ? ['bob', 'eve'] : [],
          metadata,
          page: 1 + numbers.below(4),
          limit: numbers.pick([1, 10, 100]),
          cursor: undefined as string | undefined,
          sorting: [numbers.pick(['timestamp', '-timestamp'])],
          cursor_pagination: numbers.chance(0.3),
        }
        const list = async (reading: typeof reader | undefined) => {
          const page = await listUsageEvents(db, scope, query, true, reading)
          // The next page by its cursor is part of the answer.
          const { next_cursor } = page.pagination
          const next = next_cursor ? await listUsageEvents(db, scope, { ...query, cursor: next_cursor }, true, reading) : undefined
          return { page, next }
        }
        await compare(list, query, ({ page }) => page.items.length === 0)
      }
    }
    const failures = world.lines.filter((line) => line.includes('event_store_unavailable'))
    expect(failures).toEqual([])
    process.stdout.write(`copy: ${tally.asked} questions · ${tally.from_copy} answered by the copy · ${tally.nonempty} with events · 0 differences\n`)
    // Only a few questions are such that the copy cannot answer.
    expect(tally.from_copy).toBeGreaterThan(tally.asked / 2)
    expect(tally.nonempty).toBeGreaterThan(tally.asked / 4)
  })

  test('copies each event once if the store refuses, loses its answers, or keeps a part of a chunk', async () => {
    const { api, organization } = await world.shop()
    const numbers = seededNumbers(11)
    const people = ['ada']
    await copyAll()
    // If an insert is repeated and its answer is lost too, the copier deletes the chunk. So one lost answer shows other mistakes than two.
    for (const [how, times] of [
      ['refuse', 2],
      ['lose_answer', 1],
      ['refuse', 1],
      ['lose_answer', 2],
    ] as const) {
      await send(api, numbers, people, 50)
      let left: number = times
      store.misbehave((statement) => (/insert into/i.test(statement) && left-- > 0 ? how : 'forward'))
      await copyUsage(deployment.deps)
      expect(await waiting()).toBeGreaterThan(0)
      await copyAll()
      store.behave()
      expect(await copied()).toEqual(await stored())
    }
    // A part of a chunk: the store has some of its events, and the chunk is still open.
    await send(api, numbers, people, 50)
    store.misbehave((statement) => (/insert into bursar_chunks/i.test(statement) ? 'refuse' : 'forward'))
    await copyUsage(deployment.deps)
    store.behave()
    const { chunk } = (await current())!
    const [[first]] = (await store.ask(`select min(id) from bursar_events_${await mark()} where chunk = ${chunk}`)) as [[string]]
    await store.run(`alter table bursar_events_${await mark()} delete where id = '${first}'`)
    await eventually('the store has deleted an event', async () => !(await copied()).events.includes(first))
    await copyAll()
    expect(await copied()).toEqual(await stored())
    expect((await verify()).differences).toEqual([])
    expect((await verify()).months).toBeGreaterThan(0)
    // The verification finds an event that is not in the copy, and one that is changed.
    await store.run(`alter table bursar_events_${await mark()} delete where id = '${first}'`)
    await eventually('the verification finds a missing event', async () => (await verify()).differences.length === 1)
    await store.run(
      `insert into bursar_events_${await mark()} select organization, month, chunk, '${first}', batch, subject, at, name, source, metadata, keys, kinds, texts, numbers, exact from bursar_events_${await mark()} where organization = '${organization.id}' limit 1`,
    )
    const [difference] = (await verify()).differences
    expect(difference!.stored).toBe(difference!.copied)
  })

  test('answers from PostgreSQL while the store is away, and makes a new copy if the store or the database was restored', async () => {
    const { api, organization } = await world.shop()
    const numbers = seededNumbers(13)
    await send(api, numbers, ['ada'], 100)
    await copyAll()
    const list = async () => {
      const reader = { store: deployment.deps.gateways.eventStore!, log: world.base.log }
      const query = { organization_id: [], name: [], source: [], customer_id: [], external_customer_id: ['ada'], page: 1, limit: 100, sorting: ['-timestamp'] }
      return listUsageEvents(deployment.deps.db, within(organization.id, 'machine', 'before'), query, true, reader)
    }
    const expected = await list()
    expect(expected.items).toHaveLength(100)
    store.misbehave(() => 'refuse')
    expect(await list()).toEqual(expected)
    // Requests do not ask a silent store again at once.
    const asked = store.statements()
    expect(await list()).toEqual(expected)
    expect(store.statements()).toBe(asked)
    store.behave()
    // The store has lost its data.
    const lost = (await current())!.id
    await store.drop([lost])
    expect(await list()).toEqual(expected)
    await copyAll()
    expect((await current())!.id).not.toBe(lost)
    expect(await copied()).toEqual(await stored())
    // The database is behind its copy, as after a restore from a backup.
    const behind = (await current())!.id
    await owner('update usage_copies set chunk = chunk - 1')
    await copyAll()
    expect((await current())!.id).not.toBe(behind)
    expect(await copied()).toEqual(await stored())
    expect(await list()).toEqual(expected)
  })

  test('counts events once that are copied during a question', async () => {
    const { api, organization } = await world.shop()
    const numbers = seededNumbers(23)
    await send(api, numbers, ['ada'], 20)
    await copyAll()
    await send(api, numbers, ['ada'], 30)
    expect(await waiting()).toBe(1)
    const real = deployment.deps.gateways.eventStore!
    // The request has already read which batches are missing.
    const late = withAsk(real, async (server, question, timeout_ms) => {
      await copyAll()
      return server.ask(question, timeout_ms)
    })
    const query = { organization_id: [], name: [], source: [], customer_id: [], external_customer_id: ['ada'], page: 1, limit: 100, sorting: ['-timestamp'] }
    const list = (reader?: { store: typeof real; log: typeof world.base.log }) =>
      listUsageEvents(deployment.deps.db, within(organization.id, 'machine', 'before'), query, true, reader)
    const asked = store.statements()
    const found = await list({ store: late, log: world.base.log })
    expect(store.statements()).toBeGreaterThan(asked)
    expect(await waiting()).toBe(0)
    expect(found.items).toHaveLength(50)
    expect(found).toEqual(await list())
  })

  test('asks the next server if one is silent, and none that is behind', async () => {
    const { api, organization } = await world.shop()
    await send(api, seededNumbers(29), ['ada'], 10)
    await copyAll()
    const real = deployment.deps.gateways.eventStore!
    // Another object than that of the tests before, which may have found the server silent.
    const next: EventServer = { ...real.servers[0]! }
    let asked = 0
    const gone: EventServer = {
      ...next,
      address: 'http://127.0.0.1:1/gone',
      ask: async () => {
        asked++
        throw new EventStoreSilent('connection refused')
      },
    }
    const query = { organization_id: [], name: [], source: [], customer_id: [], external_customer_id: ['ada'], page: 1, limit: 100, sorting: ['-timestamp'] }
    const list = async () => {
      const reader = { store: { ...real, servers: [gone, next] }, log: world.base.log }
      return (await listUsageEvents(deployment.deps.db, within(organization.id, 'machine', 'before'), query, true, reader)).items.length
    }
    const statements = store.statements()
    expect(await list()).toBe(10)
    expect(await list()).toBe(10)
    expect(asked).toBe(1)
    expect(store.statements() - statements).toBe(6)
    await owner('update usage_copies set behind = $1', [[real.servers[0]!.address]])
    expect(await list()).toBe(10)
    expect(store.statements() - statements).toBe(6)
    await owner(`update usage_copies set behind = '{}'`)
    expect(await list()).toBe(10)
    expect(store.statements() - statements).toBe(9)
  })

  test('gives all questions of a request one time, and tells a slow question from a silent store', async () => {
    const { api, organization } = await world.shop()
    await send(api, seededNumbers(19), ['ada'], 10)
    await copyAll()
    const real = deployment.deps.gateways.eventStore!
    const left: number[] = []
    const slow = withAsk(real, async (server, question, timeout_ms) => {
      left.push(timeout_ms)
      const elapsed = stopwatch()
      await eventually('50 milliseconds have passed', async () => elapsed() > 50)
      return server.ask(question, timeout_ms)
    })
    const query = { organization_id: [], name: [], source: [], customer_id: [], external_customer_id: ['ada'], page: 1, limit: 100, sorting: ['-timestamp'] }
    const scope = within(organization.id, 'machine', 'before')
    expect((await listUsageEvents(deployment.deps.db, scope, query, true, { store: slow, log: world.base.log })).items).toHaveLength(10)
    expect(left).toHaveLength(3)
    expect(left[0]).toBeLessThanOrEqual(5000)
    expect(left[0]! - left[1]!).toBeGreaterThanOrEqual(50)
    expect(left[1]! - left[2]!).toBeGreaterThanOrEqual(50)
    // A server of 2018 stops a question by itself.
    const refusal = await real.servers[0]!.ask('select count() from numbers(1000000000000)', 4000).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(EventStoreUnavailable)
    expect(refusal).not.toBeInstanceOf(EventStoreSilent)
  })

  const kills = counted('COPY_KILLS', 2, 2)

  test(`copies each event once while events arrive and the worker is killed ${kills} times`, { timeout: longest }, async () => {
    const { api } = await world.shop()
    const numbers = seededNumbers(17)
    await copyAll()
    // The killed workers live by the wall clock.
    await owner('update usage_copies set lease_until = null, lease_token = null')
    const ended = new AbortController()
    const sender = (async () => {
      while (!ended.signal.aborted) await send(api, numbers, ['ada', 'bob'], 20)
    })()
    for (let kill = 0; kill < kills; kill++) {
      const worker = launch(['serve', '--roles', 'worker'], { ...world.environmentVariables, BURSAR_LOG_LEVEL: 'info' })
      const { chunk } = (await current())!
      await eventually('the worker copies', async () => Number((await current())!.chunk) > Number(chunk) + numbers.below(3))
      worker.signal('SIGKILL')
      await worker.exited
      // The next worker takes over as after a minute.
      await owner('update usage_copies set lease_until = null, lease_token = null')
    }
    ended.abort()
    await sender
    await copyAll()
    const [inStore, inDatabase] = [await copied(), await stored()]
    const distinct = new Set(inStore.events)
    const missing = inDatabase.events.filter((id) => !distinct.has(id)).length
    process.stdout.write(`copy: ${kills} kills · ${inDatabase.events.length} events · missing ${missing} · double ${inStore.events.length - distinct.size}\n`)
    expect(inStore).toEqual(inDatabase)
  })
})
