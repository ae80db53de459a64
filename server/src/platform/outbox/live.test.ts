import { expect, test } from 'vitest'
import { eventually, openWorld } from '../../../test/harness/world.ts'
import { newId } from '../../kernel/ids.ts'
import { openLive, type LiveReader, type LiveSink } from './live.ts'

/** A connection whose client reads only while `reads` is true. */
const openSink = () => {
  const state = { text: '', waiting: 0, reads: true, isOver: false }
  const sink: LiveSink = {
    write: (text) => {
      state.text += text
      if (!state.reads) state.waiting += text.length
    },
    buffered: () => state.waiting,
    end: () => (state.isOver = true),
    destroy: () => (state.isOver = true),
  }
  return { state, sink }
}

const open = async (limits = { session: 10, organization: 3, buffered: 2_000 }) => {
  const world = await openWorld()
  const { id: organization_id } = await world.organization()
  const rings = new Set<() => void>()
  const live = openLive({
    db: world.api.postgres.db,
    log: world.base.log,
    limits,
    numbered: {
      subscribe: (_, ring) => {
        rings.add(ring)
        return () => rings.delete(ring)
      },
    },
    findRoles: async (ids) => new Map(ids.map((id) => [`${id} ${organization_id}`, 'owner'])),
  })
  await world.database.owner((owner) => owner.query('insert into event_heads values ($1, 0) on conflict (organization_id) do nothing', [organization_id]))
  const number = async (kind: string, count: number) => {
    await world.database.owner(async (owner) => {
      await owner.query(
        `insert into events (organization_id, id, sequence, kind, resource_id, api_version, business_at, wall_at)
         select $1, gen_random_uuid(), h.last_sequence + n, $2, gen_random_uuid(), '2026-04', now(), now()
         from event_heads h cross join generate_series(1, $3::int) n where h.organization_id = $1`,
        [organization_id, kind, count],
      )
      await owner.query('update event_heads set last_sequence = last_sequence + $2 where organization_id = $1', [organization_id, count])
    })
    for (const ring of rings) ring()
  }
  const join = async (wish: Partial<LiveReader> = {}, after?: number) => {
    const { state, sink } = openSink()
    const reader = { session_id: newId(new Date()), organization_id, role: 'owner', mayRead: () => true, ...wish }
    const begin = await live.join(reader, { after, wait: 60_000 })
    return { state, isRefused: begin === undefined, begin: (own: LiveSink = sink) => begin!(own) }
  }
  return {
    live,
    rings,
    number,
    join,
    close: async () => {
      live.close()
      await world.close()
    },
  }
}

test('leaves out the events that a reader may not read', async () => {
  const { join, number, close } = await open()
  const finance = await join({ mayRead: (kind) => kind.startsWith('order.') })
  const everything = await join()
  finance.begin()
  everything.begin()
  await number('product.updated', 1)
  await number('order.paid', 1)
  await eventually('both events are sent', async () => everything.state.text.includes('order.paid'))
  expect(everything.state.text).toContain('product.updated')
  expect(finance.state.text).toContain('order.paid')
  expect(finance.state.text).not.toContain('product.updated')
  await close()
})

test('drops a client that reads too slowly, before its buffer grows', async () => {
  const { join, number, live, close } = await open()
  const slow = await join()
  const quick = await join()
  slow.begin()
  quick.begin()
  await eventually('the streams are open', async () => slow.state.text.includes('ready') && quick.state.text.includes('ready'))
  slow.state.reads = false
  for (let round = 0; round < 20; round++) {
    await number('order.updated', 20)
    await eventually('the round is sent', async () => quick.state.text.split('event: hint').length - 1 >= (round + 1) * 20)
  }
  expect(slow.state.isOver).toBe(true)
  // The limit and one read of 20 events.
  expect(slow.state.waiting).toBeLessThan(2_000 + 20 * 350)
  expect(quick.state.isOver).toBe(false)
  expect(live.count()).toBe(1)
  await close()
})

test('loses no event and repeats none while a stream catches up and events go on', async () => {
  const { join, number, close } = await open()
  await number('order.updated', 450)
  const stream = await join({}, 0)
  stream.begin()
  for (let round = 0; round < 10; round++) await number('order.updated', 25)
  const sequences = () => [...stream.state.text.matchAll(/^data: \{"sequence":(\d+),/gm)].map(([, sequence]) => Number(sequence))
  await eventually('all events are sent', async () => sequences().length >= 700)
  expect(sequences()).toEqual(Array.from({ length: 700 }, (_, at) => at + 1))
  await close()
})

test('limits the streams of an organization, and ends the subscription with the last stream', async () => {
  const { join, rings, live, close } = await open()
  const [one, two, three] = [await join(), await join(), await join()]
  expect((await join()).isRefused).toBe(true)
  expect(rings.size).toBe(1)
  const leaves = [one.begin(), two.begin(), three.begin()]
  leaves[0]!()
  const four = await join()
  expect(four.isRefused).toBe(false)
  for (const leave of [leaves[1]!, leaves[2]!, four.begin()]) leave()
  expect([live.count(), rings.size]).toEqual([0, 0])
  await close()
})
