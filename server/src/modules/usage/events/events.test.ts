import {
  assignSeat,
  correctEvents,
  createCustomer,
  createMeter,
  deleteCustomer,
  getUsageEvent,
  ingestEvents,
  listEventNames,
  listEventTypes,
  listUsageEvents,
  updateEventType,
  type Filter,
  type UserEvent,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { statementsOf } from '../../../../test/faults/sizes/statements.ts'
import { openTeams, type Teams } from '../../../../test/harness/teams.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { regularWork } from '../../../main/wire.ts'

let world: World
let teams: Teams
beforeAll(async () => {
  world = await openWorld({ worker: true })
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

/** Runs a periodic task once, as a worker. */
const runTask = (task: string) =>
  regularWork.find(({ name }) => name === task)!.run({ db: world.working!.postgres.db, transact: world.transactAsWorker, platform: world.platform } as never)

type Api = Awaited<ReturnType<World['shop']>>['api']
let made = 0
const customerOf = (api: Api, more: object = {}) => api.call(createCustomer, { body: { email: `reader-${++made}@people.test`, ...more } })
const listed = async (api: Api, query: object = {}) =>
  (await api.call(listUsageEvents, { query: { limit: 100, source: ['user'], ...query } })).items as unknown as UserEvent[]
const namesOf = async (api: Api, query: object = {}) => (await listed(api, { sorting: 'timestamp', ...query })).map(({ name }) => name).join(' ')
const day = (number: number) => `2026-01-0${number}T00:00:00.000Z`
const statusOf = async (api: Api, query: object) => (await api.send(listUsageEvents, { query })).status

/** Opens a shop with five events of two customers, one on each day. */
const seeded = async () => {
  const shop = await world.shop()
  const first = await customerOf(shop.api, { external_id: 'first', name: 'Ada Lovelace' })
  await shop.api.call(ingestEvents, {
    body: {
      events: [
        { name: 'a', timestamp: day(1), customer_id: first.id, metadata: { tokens: 5, model: 'small' } },
        { name: 'b', timestamp: day(2), customer_id: first.id, metadata: { tokens: 20, model: 'large', beta: true } },
        { name: 'c', timestamp: day(3), external_customer_id: 'second', metadata: { tokens: 'many' } },
        { name: 'd', timestamp: day(4), external_customer_id: 'second', metadata: { model: 'large' } },
        { name: 'e', timestamp: day(5), external_customer_id: 'first' },
      ],
    },
  })
  return { ...shop, first }
}

describe('list', () => {
  test('[S1-13] filters by time, name, source, customer, metadata, text and filter', async () => {
    const { api, first, organization } = await seeded()
    expect(await namesOf(api)).toBe('a b c d e')
    expect(await namesOf(api, { source: ['user', 'system'] })).toBe('a b c d e customer.created')
    expect(await namesOf(api, { sorting: '-timestamp' })).toBe('e d c b a')
    // Both bounds are exclusive.
    expect(await namesOf(api, { start_timestamp: day(2), end_timestamp: day(5) })).toBe('c d')
    expect(await namesOf(api, { name: ['a', 'e'] })).toBe('a e')
    expect(await namesOf(api, { source: 'user' })).toBe('a b c d e')
    expect(await namesOf(api, { source: 'system' })).toBe('customer.created')
    expect(await namesOf(api, { customer_id: first.id })).toBe('a b e')
    expect(await namesOf(api, { external_customer_id: 'first' })).toBe('a b e')
    expect(await namesOf(api, { external_customer_id: ['first', 'second'] })).toBe('a b c d e')
    expect(await namesOf(api, { customer_id: first.id, external_customer_id: 'second' })).toBe('')
    expect(await namesOf(api, { metadata: { model: 'large' } })).toBe('b d')
    expect(await namesOf(api, { metadata: { tokens: ['5', '20'], model: 'small' } })).toBe('a')
    expect(await namesOf(api, { query: 'lovel' })).toBe('a b e')
    expect(await namesOf(api, { query: 'LARGE' })).toBe('b d')
    expect(await namesOf(api, { query: 'second' })).toBe('c d')
    const rule: Filter = { conjunction: 'and', clauses: [{ property: 'beta', operator: 'eq', value: true }] }
    expect(await namesOf(api, { filter: JSON.stringify(rule) })).toBe('b')
    expect(await namesOf(api, { organization_id: organization.id })).toBe('a b c d e')
  })

  test('rejects a short search, a wrong filter and an unknown meter', async () => {
    const { api } = await seeded()
    expect(await statusOf(api, { query: 'ab' })).toBe(422)
    expect(await statusOf(api, { filter: '{' })).toBe(422)
    expect(await statusOf(api, { filter: '{"conjunction":"xor","clauses":[]}' })).toBe(422)
    expect(await statusOf(api, { depth: 6 })).toBe(422)
    const stranger = await world.shop()
    const meter = await stranger.api.call(createMeter, {
      body: { name: 'Theirs', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } },
    })
    expect(await statusOf(api, { meter_id: meter.id })).toBe(422)
    const user = await world.person()
    for (let at = 0; at < 2; at++) await world.organization({ owner: user.id })
    expect(await statusOf(world.client({ token: (await user.token()).secret }), { query: 'abc' })).toBe(422)
  })

  test('lists the events that a meter counts', async () => {
    const { api } = await seeded()
    const meterOf = async (aggregation: object, clauses: object[] = []) =>
      (await api.call(createMeter, { body: { name: 'Meter', filter: { conjunction: 'and', clauses }, aggregation } as never })).id
    const large = { property: 'model', operator: 'eq', value: 'large' }
    expect(await namesOf(api, { meter_id: await meterOf({ func: 'count' }, [large]) })).toBe('b d')
    expect(await namesOf(api, { meter_id: await meterOf({ func: 'sum', property: 'tokens' }) })).toBe('a b')
    expect(await namesOf(api, { meter_id: await meterOf({ func: 'unique', property: 'tokens' }) })).toBe('a b c')
  })

  test('pages with and without a total', async () => {
    const { api } = await seeded()
    const page = await api.call(listUsageEvents, { query: { source: ['user'], limit: 2, page: 3 } })
    expect(page).toMatchObject({ items: [{ name: 'a' }], pagination: { total_count: 5, max_page: 3, next_cursor: null } })
    const walk = async (query: object) => {
      const seen: string[] = []
      for (let cursor: string | undefined; ;) {
        const answer = await api.call(listUsageEvents, { query: { source: ['user'], limit: 2, ...query, ...(cursor === undefined ? {} : { cursor }) } })
        seen.push(...answer.items.map(({ name }) => name))
        if (answer.pagination.next_cursor === null) return { seen: seen.join(' '), last: answer.pagination }
        cursor = answer.pagination.next_cursor
      }
    }
    expect(await walk({})).toMatchObject({ seen: 'e d c b a' })
    expect(await walk({ cursor_pagination: true })).toEqual({ seen: 'e d c b a', last: { has_next_page: false, next_cursor: null } })
    expect(await walk({ cursor_pagination: true, name: ['a', 'b', 'e'] })).toMatchObject({ seen: 'e b a' })
    expect((await api.call(listUsageEvents, { query: { name: ['a', 'b'], limit: 1 } })).pagination).toMatchObject({ total_count: 2, max_page: 2 })
    const first = await api.call(listUsageEvents, { query: { source: ['user'], limit: 2, cursor_pagination: true } })
    expect(first.pagination).toEqual({ has_next_page: true, next_cursor: expect.any(String) as string })
  })

  test('shows nothing of another organization', async () => {
    const { api, first } = await seeded()
    const [event] = await listed(api)
    const { api: stranger } = await world.shop()
    expect(await listed(stranger)).toEqual([])
    expect(await listed(stranger, { customer_id: first.id })).toEqual([])
    expect(await listed(stranger, { parent_id: event!.id })).toEqual([])
    expect((await stranger.send(getUsageEvent, { params: { id: event!.id } })).status).toBe(404)
    expect((await stranger.call(listEventNames, {})).items).toEqual([])
    expect((await stranger.call(listEventTypes, { query: { parent_id: event!.id } })).items).toEqual([])
    const [type] = (await api.call(listEventTypes, { query: { source: 'user' } })).items
    expect((await stranger.send(updateEventType, { params: { id: type!.id! }, body: { label: 'Mine' } })).status).toBe(404)
  })
})

test('the total of a name is exact, before and after corrections, and reads no event', async () => {
  const { api } = await world.shop()
  const named = (name: string, count: number) => Array.from({ length: count }, (_, at) => ({ name, external_customer_id: 'c', external_id: `${name}${at}` }))
  await api.call(ingestEvents, { body: { events: [...named('a', 4), ...named('b', 2)] } })
  await api.call(ingestEvents, { body: { events: [{ name: 'a', external_customer_id: 'c' }] } })
  const total = async (query: object) => {
    const { items, pagination } = await api.call(listUsageEvents, { query: { limit: 1, ...query } })
    return [items.length, (pagination as { total_count: number }).total_count]
  }
  const totals = async () => [
    await total({ name: 'a' }),
    await total({ name: ['a', 'b'] }),
    await total({ name: 'c' }),
    await total({ source: 'user' }),
    await total({ name: 'b', source: 'system' }),
    await total({ name: 'a', external_customer_id: 'c' }),
    await total({ name: 'a', corrected: true }),
  ]
  expect(await totals()).toEqual([
    [1, 5],
    [1, 7],
    [0, 0],
    [1, 7],
    [0, 0],
    [1, 5],
    [0, 0],
  ])
  const voided = ['a0', 'b0', 'b1'].map((event_id) => ({ action: 'void' as const, event_id, reason: 'sent by mistake' }))
  expect((await api.send(correctEvents, { body: { corrections: voided } })).status).toBe(200)
  expect(await totals()).toEqual([
    [1, 4],
    [1, 4],
    [0, 0],
    [1, 4],
    [0, 0],
    [1, 4],
    [1, 1],
  ])
  expect(await total({ name: 'b' })).toEqual([0, 0])
  const { statements } = await statementsOf(() => total({ name: 'a' }))
  const counting = statements.filter(({ text }) => text.includes('as tenant'))
  expect(counting.map(({ text }) => [text.includes('usage_name_counts'), text.includes('"usage_events"')])).toEqual([[true, false]])
})

describe('names and types', () => {
  test('counts the occurrences of names, and sorts and filters them', async () => {
    const { api, first } = await seeded()
    await api.call(ingestEvents, { body: { events: [{ name: 'a', timestamp: day(6), external_customer_id: 'second' }] } })
    const names = async (query: object = {}) =>
      (await api.call(listEventNames, { query: { source: ['user'], ...query } })).items.map(({ name, occurrences }) => `${name}${occurrences}`).join(' ')
    expect(await names()).toBe('a2 e1 d1 c1 b1')
    expect(await names({ sorting: 'name' })).toBe('a2 b1 c1 d1 e1')
    expect(await names({ sorting: ['-occurrences', 'name'] })).toBe('a2 b1 c1 d1 e1')
    expect(await names({ sorting: 'first_seen' })).toBe('a2 b1 c1 d1 e1')
    expect(await names({ query: 'B' })).toBe('b1')
    expect(await names({ source: 'system' })).toBe('customer.created1')
    const { answer, statements } = await statementsOf(() => names({ customer_id: first.id }))
    expect(answer).toBe('e1 b1 a1')
    // The events of a customer are counted once for the page and its total.
    expect(statements.filter(({ text }) => text.includes('from usage_events union'))).toHaveLength(1)
    expect(await names({ customer_id: first.id, sorting: 'name', limit: 2, page: 2 })).toBe('e1')
    expect(await names({ customer_id: first.id, query: 'b' })).toBe('b1')
    expect(await names({ external_customer_id: 'second' })).toBe('a1 d1 c1')
    expect((await api.call(listEventNames, { query: { source: ['user'], query: 'a' } })).items[0]).toEqual({
      name: 'a',
      label: 'a',
      source: 'user',
      occurrences: 2,
      first_seen: day(1),
      last_seen: day(6),
    })
    expect((await api.call(listEventNames, { query: { source: ['user'], limit: 2, page: 2 } })).pagination).toMatchObject({ total_count: 5, max_page: 3 })
  })

  test('counts the same after the stored counts were merged', async () => {
    const { api, organization } = await world.shop()
    for (let at = 0; at < 55; at++) await api.call(ingestEvents, { body: { events: [{ name: 'a', external_customer_id: 'c' }] } })
    const rows = async () => {
      const { rows: counts } = await world.database.owner((owner) => owner.query('select from usage_name_counts where organization_id = $1', [organization.id]))
      return counts.length
    }
    const before = await api.call(listEventTypes, {})
    // The worker of this test may merge at the same time. Only one of them merges.
    await eventually('all counts are merged', async () => {
      await runTask('usage.merge_names')
      return (await rows()) === 1
    })
    expect(await api.call(listEventTypes, {})).toEqual(before)
    expect(before.items).toMatchObject([{ occurrences: 55 }])
  })

  test('changes the label of a type, and shows the value of its selector', async () => {
    const { api } = await seeded()
    const types = async (query: object = {}) => (await api.call(listEventTypes, { query: { source: 'user', ...query } })).items
    const type = (await types()).find(({ name }) => name === 'b')!
    expect(type).toMatchObject({ label: 'b', label_property_selector: null, modified_at: null, source: 'user' })
    const changed = await api.call(updateEventType, { params: { id: type.id! }, body: { label: 'Bought', label_property_selector: 'metadata.model' } })
    expect(changed).toMatchObject({
      id: type.id,
      name: 'b',
      label: 'Bought',
      label_property_selector: 'metadata.model',
      modified_at: expect.any(String) as string,
    })
    expect(await listed(api, { name: 'b' })).toMatchObject([{ label: 'large' }])
    expect((await types({ query: 'bough' })).map(({ name }) => name)).toEqual(['b'])
    expect((await types({ sorting: 'label' })).map(({ label }) => label)).toEqual(['a', 'Bought', 'c', 'd', 'e'].toSorted())
    const cleared = await api.call(updateEventType, { params: { id: type.id! }, body: { label: 'Bought' } })
    expect(cleared.label_property_selector).toBeNull()
    expect(await listed(api, { name: 'b' })).toMatchObject([{ label: 'Bought' }])
    expect((await api.sendRaw(updateEventType, { params: { id: type.id! }, body: {} })).status).toBe(422)
    expect((await api.send(updateEventType, { params: { id: type.id! }, body: { label: '' } })).status).toBe(422)
  })

  test('counts only roots, or only children of an event', async () => {
    const { api } = await world.shop()
    const event = (name: string, parent_id?: string) => ({ name, external_customer_id: 'c', external_id: name, ...(parent_id ? { parent_id } : {}) })
    await api.call(ingestEvents, { body: { events: [event('root'), event('child', 'root'), event('grandchild', 'child')] } })
    const root = (await listed(api, { name: 'root' }))[0]!
    const names = async (query: object) => (await api.call(listEventTypes, { query: { sorting: 'name', ...query } })).items.map(({ name }) => name).join(' ')
    expect(await names({})).toBe('child grandchild root')
    expect(await names({ root_events: true })).toBe('root')
    expect(await names({ parent_id: root.id })).toBe('child')
    expect(await names({ source: 'user' })).toBe('child grandchild root')
    expect(await names({ source: 'system' })).toBe('')
  })
})

describe('members and people', () => {
  test('shows the events of a seat holder with the holder before phase 2, and with the buyer and the member in phase 2', async () => {
    const team = await teams.buy({ phase: 'phase1' })
    const { api } = team
    const seat = await api.call(assignSeat, { body: { ...team.pool, email: `holder-${++made}@people.test`, immediate_claim: true } })
    const holder = seat.customer_id!
    expect(holder).not.toBe(team.customer_id)
    await api.call(ingestEvents, {
      body: {
        events: [
          { name: 'used', customer_id: holder },
          { name: 'bought', customer_id: team.customer_id },
        ],
      },
    })
    const used = async () => (await listed(api, { name: 'used' }))[0]!
    expect(await used()).toMatchObject({ customer_id: holder, customer: { id: holder }, member_id: null })
    expect(await namesOf(api, { customer_id: holder })).toBe('used')
    expect(await namesOf(api, { customer_id: team.customer_id })).toBe('bought')
    await team.phase('phase2')
    const member = (await team.members()).find(({ email }) => email === seat.customer_email)!
    expect(await used()).toMatchObject({ customer_id: team.customer_id, customer: { id: team.customer_id }, member_id: member.id })
    expect(await api.call(getUsageEvent, { params: { id: (await used()).id } })).toEqual(await used())
    expect(await namesOf(api, { customer_id: holder })).toBe('')
    expect((await listed(api, { customer_id: team.customer_id })).map(({ name }) => name).toSorted()).toEqual(['bought', 'used'])
    expect((await api.send(ingestEvents, { body: { events: [{ name: 'used', customer_id: holder }] } })).status).toBe(422)
  })

  test('erases prompts, responses and external ids with the customer, and keeps the events', async () => {
    const { api, organization } = await world.shop()
    await api.call(ingestEvents, {
      body: {
        events: [
          {
            name: 'llm',
            external_customer_id: 'erased-customer',
            external_member_id: 'erased-member',
            metadata: {
              _llm: { vendor: 'v', model: 'm', prompt: 'secret question', response: 'secret answer', input_tokens: 1, output_tokens: 1, total_tokens: 2 },
            },
          },
        ],
      },
    })
    const customer = await customerOf(api, { external_id: 'erased-customer' })
    const stored = async () => {
      const tables = ['usage_subjects', 'usage_members', 'usage_texts', 'usage_events']
      const rows = await Promise.all(
        tables.map((table) => world.database.owner((owner) => owner.query(`select * from ${table} where organization_id = $1`, [organization.id]))),
      )
      return JSON.stringify(rows.map((one) => one.rows as unknown[]))
    }
    expect(await stored()).toMatch(/secret question.*/)
    await api.call(deleteCustomer, { params: { id: customer.id }, query: { anonymize: true } })
    await eventually('the texts and external ids are erased', async () => !/secret|erased-/.test(await stored()))
    const [event] = await listed(api)
    expect(event).toMatchObject({ name: 'llm', customer_id: customer.id, external_customer_id: null, external_member_id: null })
    expect(event!.metadata).toEqual({ _llm: { vendor: 'v', model: 'm', input_tokens: 1, output_tokens: 1, total_tokens: 2 } })
    expect((await api.call(listEventTypes, { query: { source: 'user' } })).items).toMatchObject([{ occurrences: 1 }])
  })

  test('erases prompts that were sent under the external id of a deleted customer, and prompts that arrive during the erasure', async () => {
    const { api, organization } = await world.shop()
    const customer = await customerOf(api, { external_id: 'late-customer' })
    const llm = { vendor: 'v', model: 'm', prompt: 'late question', response: 'late answer', input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    const send = (who: object) => api.call(ingestEvents, { body: { events: [{ name: 'llm', metadata: { _llm: llm }, ...who } as never] } })
    await send({ customer_id: customer.id })
    await api.call(deleteCustomer, { params: { id: customer.id } })
    // No customer has the external id any more, so these events belong to no customer.
    await send({ external_customer_id: 'late-customer' })
    const texts = async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query<{ id: string; subject_id: string; prompt: string | null }>('select id, subject_id, prompt from usage_texts where organization_id = $1', [
          organization.id,
        ]),
      )
      return rows
    }
    expect((await texts()).map(({ prompt }) => prompt)).toEqual(['late question', 'late question'])
    await api.call(deleteCustomer, { params: { id: customer.id }, query: { anonymize: true } })
    const areErased = async () => (await texts()).every(({ prompt }) => prompt === null)
    await eventually('the texts are erased', areErased)
    // A request that began before the erasure commits its texts after the job has run.
    await world.database.owner((owner) => owner.query(`update usage_texts set prompt = 'very late' where organization_id = $1`, [organization.id]))
    await runTask('customers.forget_again')
    await eventually('the late texts are erased', areErased)
  })
})
