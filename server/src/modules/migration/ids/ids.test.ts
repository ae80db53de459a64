import { createBenefit, exportMemberIdMap, getMemberIdMap, listBenefitGrants, listSeats, type MovedCustomer } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import type { z } from 'zod'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams, type Teams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { statementsOf, workOf, withoutIntervals } from '../../../../test/faults/sizes/statements.ts'

let world: World
let teams: Teams
beforeAll(async () => {
  world = await withoutIntervals(() => openWorld())
  teams = await openTeams(world)
})
afterAll(async () => {
  await teams.close()
  await world.close()
})

type Row = z.input<typeof MovedCustomer>

/** Reads the whole id map page by page. */
const walk = async (api: Client, limit = 1): Promise<Row[]> => {
  const rows: Row[] = []
  for (let cursor: string | undefined; ;) {
    const page = await api.call(getMemberIdMap, { query: { limit, cursor } })
    rows.push(...page.items)
    if (page.next_cursor === null) return rows
    cursor = page.next_cursor
  }
}

const inOrder = (rows: readonly Row[]) => rows.toSorted((a, b) => (`${a.holder_customer_id}${a.member_id}` < `${b.holder_customer_id}${b.member_id}` ? -1 : 1))

/**
 * Creates two teams of one seller. One person has a seat in both teams. Another person and the buyer of the first team
 * have a seat in the first team.
 */
const open = async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createBenefit, { body: { type: 'custom', description: 'A note', properties: { note: null } } })
  const one = await teams.buy({ shop, phase: 'phase1', benefits: [id], own: true })
  const two = await teams.buy({ shop, benefits: [id] })
  const shared = await teams.claim(await teams.assign(one))
  const seats = [shared.seat, await teams.assign(two, { email: shared.seat.customer_email }), await teams.assign(one)]
  const rows = [one, two, one].map((team, at) => ({
    holder_customer_id: seats[at]!.customer_id!,
    member_id: seats[at]!.member_id!,
    customer_id: team.customer_id,
    email: seats[at]!.customer_email!,
  }))
  return { shop, one, two, rows: inOrder(rows) }
}

test('the id map lists every seat holder with its member, before and after the switch, as pages and as a file [S3-12]', async () => {
  const { shop, one, rows } = await open()
  const { api } = shop
  expect(new Set(rows.map(({ holder_customer_id }) => holder_customer_id)).size).toBe(2)
  expect(await walk(api)).toEqual(rows)
  // The seat list shows the same customer id and member id for each holder as the id map.
  const seats = (await api.call(listSeats, { query: one.pool })).seats.filter(({ customer_id }) => customer_id !== one.customer_id)
  for (const { customer_id, member_id } of seats) expect(rows).toContainEqual(expect.objectContaining({ holder_customer_id: customer_id, member_id }))
  const file = await api.send(exportMemberIdMap, { query: {} })
  const lines = ['Holder Customer ID,Member ID,Customer ID,Email', ...rows.map((row) => Object.values(row).join(',')), '']
  expect([file.body.replaceAll('"', ''), file.headers.get('x-total-count'), file.headers.get('content-disposition')]).toEqual([
    lines.join('\r\n'),
    '3',
    'attachment; filename="member-id-map.csv"',
  ])
  await shop.phase('phase2')
  expect(await walk(api)).toEqual(rows)
  expect((await api.send(exportMemberIdMap, { query: {} })).body).toBe(file.body)
})

test('the id map includes holders that have only a grant, and omits rows without a member', async () => {
  const { shop, rows } = await open()
  const { api, organization } = shop
  const change = (text: string) => world.database.owner((owner) => owner.query(text, [organization.id]))
  const granted = (await api.call(listBenefitGrants, { query: {} })).items
  await change('update seats set member_id = null where organization_id = $1')
  const left = rows.filter(({ holder_customer_id, member_id }) =>
    granted.some((grant) => grant.customer_id === holder_customer_id && grant.member_id === member_id),
  )
  expect(left.length).toBe(1)
  expect(await walk(api)).toEqual(left)
  await change('update benefit_grants set member_id = null where organization_id = $1')
  expect(await walk(api)).toEqual([])
})

test('the id map requires `organization_id` if the caller has several organizations, and rejects an invalid cursor and limit', async () => {
  const { shop, rows } = await open()
  const other = await world.organization()
  const person = await world.person()
  await world.join(shop.organization.id, person.id, 'member')
  await world.join(other.id, person.id, 'admin')
  const api = world.client({ token: (await person.token()).secret })
  const locs = async (query: object) => {
    const { status, body } = await api.sendRaw(getMemberIdMap, { query })
    return [status, (body as { detail: { loc: string[] }[] }).detail[0]!.loc.join('.')]
  }
  expect(await locs({})).toEqual([422, 'query.organization_id'])
  expect(await locs({ organization_id: (await world.organization()).id })).toEqual([422, 'query.organization_id'])
  expect(await locs({ organization_id: other.id, cursor: 'nonsense' })).toEqual([422, 'query.cursor'])
  expect(await locs({ organization_id: other.id, limit: 0 })).toEqual([422, 'query.limit'])
  expect((await api.call(getMemberIdMap, { query: { organization_id: shop.organization.id, limit: 5000 } })).items).toEqual(rows)
  expect(await walk(world.client({ token: (await person.token()).secret }, { 'bursar-organization': other.id }))).toEqual([])
  const stranger = await world.shop()
  expect(await walk(stranger.api)).toEqual([])
})

test('a page of the id map reads only its own rows, independent of the number of holders', async () => {
  const { shop, one } = await open()
  let made = 0
  /** Adds holders without running triggers. */
  const add = (count: number) =>
    world.database.owner(async (owner) => {
      await owner.query(`set session_replication_role = 'replica'`)
      await owner.query(
        `with holders as (
           insert into customers (organization_id, id, created_at, type, email, email_verified, metadata, pure_holder)
           select organization_id, gen_random_uuid(), created_at, 'individual', n || '@holders.test', false, '{}', true
           from customers, generate_series($4::int + 1, $4::int + $2::int) n where organization_id = $1 and id = $3 returning id
         ), seat as (
           select * from seats where organization_id = $1 and buyer_customer_id = $3 and holder_customer_id <> buyer_customer_id and status = 'claimed'
         )
         insert into seats (organization_id, id, created_at, subscription_id, status, revoked_at, buyer_customer_id, holder_customer_id, member_id, email, metadata)
         select organization_id, gen_random_uuid(), created_at, subscription_id, 'revoked', created_at, buyer_customer_id, holders.id, member_id, email, '{}'
         from seat, holders`,
        [shop.organization.id, count, one.customer_id, made],
      )
      await owner.query('analyze seats, benefit_grants, members')
      made += count
    })
  /** Returns the number of rows that the first two pages read. */
  const looked = async () => {
    const ask = (cursor?: string) => statementsOf(() => shop.api.call(getMemberIdMap, { query: { limit: 20, cursor } }))
    const first = await ask()
    expect(first.answer.items).toHaveLength(20)
    const second = await ask(first.answer.next_cursor!)
    const asked = [first, second].flatMap(({ statements }) => statements.filter(({ text }) => text.includes('holder_customer_id')))
    expect(asked).toHaveLength(2)
    const works = await world.database.owner(async (owner) => [await workOf(owner, asked[0]!), await workOf(owner, asked[1]!)])
    for (const { swept, summary } of works) expect(swept, summary).not.toContain('seats')
    return Math.max(...works.map((work) => work.looked))
  }
  await add(1000)
  const few = await looked()
  await add(9000)
  expect(await looked()).toBeLessThan(few * 2)
  expect(await walk(shop.api, 1000)).toHaveLength(made + 3)
})
