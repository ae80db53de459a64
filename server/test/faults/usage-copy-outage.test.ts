import { listUsageEvents } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { verifyCopy } from '../../src/modules/usage/copies/verifying.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { hasEventStore, openEventStore, type EventStoreProxy, type Treatment } from '../harness/event-stores.ts'
import { fairStopwatch } from '../harness/fair.ts'
import { counted } from '../harness/pace.ts'
import { launch, portOf, type Program } from '../harness/process.ts'
import { openUsageLanes } from '../harness/usage-lanes.ts'
import { eventually, openWorld, type World } from '../harness/world.ts'

/** Seconds without the store: half of them it refuses connections, and half of them it is silent. */
const seconds = counted('COPY_OUTAGE', 20, 20)
/** Longest time that a request waits for the store, in milliseconds. */
const bound = 5000
/** Time for which no request asks a silent store, in milliseconds. */
const pause = 10_000
const lanes = 3

describe.runIf(hasEventStore)('with an event store', () => {
  let world: World
  let store: EventStoreProxy
  let deployment: Awaited<ReturnType<typeof openDeployment>>
  const programs: Program[] = []
  beforeAll(async () => {
    store = await openEventStore()
    const budgets = { api: [[100_000_000, 60]], ingested_events: [[100_000_000, 60]] }
    world = await openWorld({ settings: { ...store.settings, BURSAR_BUDGETS: JSON.stringify(budgets) } })
    deployment = await openDeployment(world, openLife(null))
  })
  afterAll(async () => {
    for (const program of programs) {
      program.signal('SIGKILL')
      await program.exited
    }
    await store.drop((await owner<{ id: string }>('select id from usage_copies')).map(({ id }) => id))
    await deployment.close()
    await world.close()
    await store.close()
  })

  const owner = <T extends object>(statement: string) => world.database.owner(async (client) => (await client.query<T>(statement)).rows)
  const serve = (role: 'api' | 'worker') => {
    const program = launch(['serve', '--roles', role], { ...world.environmentVariables, BURSAR_LOG_LEVEL: 'info' })
    programs.push(program)
    return program
  }
  const waiting = async () => (await owner<{ rows: number }>('select count(*)::int as rows from usage_uncopied'))[0]!.rows
  const isCopied = async () => (await owner(`select from usage_copies where listed = 'everything' and chunk > 0`)).length === 1 && (await waiting()) === 0

  test(`ingests and answers while the store is away for ${seconds} seconds, and copies each event once after its return`, { timeout: 3_600_000 }, async () => {
    const [api] = [serve('api'), serve('worker')]
    const port = portOf(await api.line('listening'))
    const usage = openUsageLanes(world, port)
    const { figures, openShop } = usage
    const loads = [await openShop(), await openShop()]
    const askers = await Promise.all(Array.from({ length: lanes }, openShop))
    await usage.sendOne(loads[0]!)
    await eventually('there is a copy', isCopied)
    const running = Promise.all([...loads.map(usage.sendEvents), ...askers.map(usage.ask)])
    const fromCopy = () => {
      const before = store.statements()
      return eventually('requests are answered from the copy', async () => store.statements() > before + 10)
    }
    await fromCopy()

    /** Statements of requests that were held by the store. The others are those of the copier. */
    const waits = () =>
      store.held.filter(({ statement }) => !/insert|create|max\(number\)|where chunk =/i.test(statement)).map(({ milliseconds }) => milliseconds)
    /** Treats all statements so for a time, while the lanes work. Returns the time. Fails if a lane fails, or if nothing is ingested or answered any more. */
    const go = async (treat: (statement: string) => Treatment, duration: number, also = () => true) => {
      const [calls, answers] = [figures.calls, figures.answers]
      store.misbehave(treat)
      const began = performance.now()
      const isOver = () => performance.now() - began > duration && figures.calls > calls && figures.answers > answers && also()
      await Promise.race([
        eventually('the lanes have worked for this time', async () => isOver(), duration + 120_000),
        running.then(() => expect.fail('a lane ended')),
      ])
      return performance.now() - began
    }
    // The last insert before the outage arrives, but its answer does not.
    await go((statement) => (/insert into/i.test(statement) ? 'lose_answer' : 'forward'), 2000)
    await go(() => 'refuse', (seconds * 1000) / 2)
    const held = await go(
      () => 'hold',
      (seconds * 1000) / 2,
      () => waits().length > 0,
    )
    const missed = await waiting()
    const back = fairStopwatch()
    store.behave()
    // A failed step of the copier waits for a minute. The test does not.
    await owner('update usage_copies set lease_until = null, lease_token = null')
    await eventually('the copy has taken up its work', async () => (await waiting()) < missed)
    usage.end()
    await running
    await eventually('everything is copied', isCopied)
    const caughtUp = back() / 1000
    const probe = askers[0]!
    const before = store.statements()
    await eventually('the copy answers again', async () => {
      await probe.call(listUsageEvents, { query: { metadata: { region: ['region-1'] }, limit: 1 } })
      return store.statements() >= before + 3
    })

    const [{ id }] = (await owner<{ id: string }>('select id from usage_copies')) as [{ id: string }]
    const [[rows, distinct]] = (await store.ask(`select toString(count()), toString(uniqExact(id)) from bursar_events_${id.replaceAll('-', '')}`)) as [
      [string, string],
    ]
    const [{ events }] = (await owner<{ events: number }>('select count(*)::int as events from usage_events')) as [{ events: number }]
    const { differences } = (await verifyCopy(deployment.deps.db, deployment.deps.gateways.eventStore!, undefined, () => undefined))!
    process.stdout.write(
      `copy: ${seconds} s without the store · ${events} events · ${figures.answers} answers, ${figures.wrong} wrong, longest ${(figures.longest / 1000).toFixed(1)} s · ${waits().length} waited for the store, longest ${(Math.max(...waits()) / 1000).toFixed(1)} s · ${missed} batches copied ${caughtUp.toFixed(0)} s after its return · missing ${events - Number(distinct)} · double ${Number(rows) - Number(distinct)}\n`,
    )
    expect(events).toBe(figures.sent)
    expect(figures.wrong).toBe(0)
    expect([Number(rows), Number(distinct)]).toEqual([events, events])
    expect(differences).toEqual([])
    // Requests had already stopped asking the store when it became silent. After that, one of them in each pause waits.
    expect(waits().length).toBeLessThanOrEqual(1 + Math.floor(held / pause))
    expect(Math.max(...waits())).toBeLessThan(bound + 1000)
  })
})
