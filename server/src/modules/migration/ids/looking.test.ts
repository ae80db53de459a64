import {
  createBenefit,
  createCustomerSession,
  deleteCustomer,
  exportCustomers,
  getBenefitGrant,
  getCustomer,
  getCustomerState,
  getExternalCustomer,
  getMember,
  getOrganization,
  getSeat,
  listBenefitGrants,
  listCustomerMembers,
  listCustomers,
  listLicenseKeys,
  listPortalBenefitGrants,
  previewWebhookEvent,
  updateCustomer,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTeams, type Teams } from '../../../../test/harness/teams.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { statementsOf, withoutIntervals } from '../../../../test/faults/sizes/statements.ts'
import { newId } from '../../../kernel/ids.ts'

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

const ahead = { 'bursar-member-phase': '2' }
type Answer = { status: number; body: unknown }
const locs = (answer: Answer) => (answer.body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.join('.'))

/** Creates a team with one claimed seat. The holder is a customer only because of the seat, and has a license key from the seat. */
const open = async (phase: 'before' | 'phase1' = 'phase1') => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'A key', properties: { prefix: null } } })
  const team = await teams.buy({ shop, phase, benefits: [id] })
  const { seat } = await teams.claim(await teams.assign(team))
  const [grant] = (await team.api.call(listBenefitGrants, { query: {} })).items
  return { ...team, seat, grant: grant!, holder_id: seat.customer_id!, member_id: seat.member_id! }
}

test('answers a read request in phase 1 as in phase 2 if it has the look-ahead header [S3-06, S3-07]', async () => {
  const team = await open()
  const { holder_id, seat, grant, organization } = team
  expect(holder_id).not.toBe(team.customer_id)
  const person = await world.person()
  await world.join(organization.id, person.id, 'member')
  const byPerson = world.client({ token: (await person.token()).secret })

  const look = async (api: Client, headers: Record<string, string>) => {
    const shown = await api.send(getSeat, { params: { seat_id: seat.id }, headers })
    const applied = shown.headers.get('bursar-member-phase')
    const listed = await api.call(listCustomers, { query: { limit: 100 }, headers })
    const of = async (customer_id: string) => [
      (await api.call(listBenefitGrants, { query: { customer_id: [customer_id] }, headers })).pagination.total_count,
      (await api.call(listLicenseKeys, { query: { customer_id: [customer_id] }, headers })).pagination.total_count,
    ]
    const file = (await api.send(exportCustomers, { headers })).body.split('\r\n')
    return {
      applied,
      answer: {
        seat: shown.body.customer_id,
        grant: (await api.call(getBenefitGrant, { params: { grant_id: grant.id }, headers })).customer_id,
        holder: (await api.send(getCustomer, { params: { id: holder_id }, headers })).status,
        type: (await api.call(getCustomer, { params: { id: team.customer_id }, headers })).type,
        customers: listed.items.map(({ id }) => id).toSorted(),
        total: listed.pagination.total_count,
        of_holder: await of(holder_id),
        of_buyer: await of(team.customer_id),
        exported: file.map((line) => line.split(',')[0]!).toSorted(),
        enabled: (await api.call(getOrganization, { params: { id: organization.id }, headers })).feature_settings!.member_model_enabled,
      },
    }
  }

  const now = await look(team.api, {})
  const foreseen = await look(team.api, ahead)
  const byMember = await look(byPerson, ahead)
  expect(now).toMatchObject({
    applied: null,
    answer: { seat: holder_id, grant: holder_id, holder: 200, type: 'individual', total: 2, of_holder: [1, 1], of_buyer: [0, 0], enabled: false },
  })
  expect(foreseen).toMatchObject({
    applied: '2',
    answer: { seat: team.customer_id, holder: 404, type: 'team', total: 1, of_holder: [0, 0], of_buyer: [1, 1], enabled: true },
  })
  expect(byMember).toEqual(foreseen)
  await team.shop.phase('phase2')
  expect(await look(team.api, {})).toEqual({ applied: null, answer: foreseen.answer })
})

test('answers portal reads in phase 1 as in phase 2 if they have the look-ahead header', async () => {
  const team = await open()
  const portal = await team.portal(team.member_id)
  const alone = await team.portal(null)
  const look = async (client: Client, headers: Record<string, string>) =>
    (await client.call(listPortalBenefitGrants, { query: {}, headers })).items.map(({ customer_id, member_id }) => ({ customer_id, member_id }))
  const foreseen = [await look(portal, ahead), await look(alone, ahead)]
  expect(await look(portal, {})).toEqual([{ customer_id: team.holder_id, member_id: team.member_id }])
  expect(foreseen[0]).toEqual([{ customer_id: team.customer_id, member_id: team.member_id }])
  await team.shop.phase('phase2')
  expect([await look(portal, {}), await look(alone, {})]).toEqual(foreseen)
})

test('ignores the look-ahead header before the preparation, and rejects it for writes', async () => {
  const team = await open('before')
  const looked = await team.api.send(getSeat, { params: { seat_id: team.seat.id }, headers: ahead })
  expect([looked.status, looked.body.customer_id, looked.headers.get('bursar-member-phase')]).toEqual([200, team.holder_id, null])
  await team.shop.phase('phase1')
  for (const wrong of ['1', '3', 'phase2', ''])
    expect(locs(await team.api.send(getSeat, { params: { seat_id: team.seat.id }, headers: { 'bursar-member-phase': wrong } }))).toEqual([
      'header.bursar-member-phase',
    ])
  const written = await team.api.send(updateCustomer, { params: { id: team.holder_id }, body: { name: 'Changed' }, headers: ahead })
  expect([written.status, locs(written)]).toEqual([422, ['header.bursar-member-phase']])
  expect(JSON.stringify(written.body)).toContain('Only GET requests can preview a phase')
  expect((await team.api.call(getCustomer, { params: { id: team.holder_id } })).name).toBeNull()
})

test('after the switch, the 404 for the customer id of a seat holder names the member, if the caller may read customers [S7-03]', async () => {
  const team = await open()
  const { api, holder_id, member_id, customer_id, organization, shop } = team
  await world.database.owner((owner) =>
    owner.query(`update customers set external_id = 'old-holder' where organization_id = $1 and id = $2`, [organization.id, holder_id]),
  )
  const stranger = await world.shop()
  const person = await world.person()
  await world.join(organization.id, person.id, 'finance')
  const byPerson = world.client({ token: (await person.token()).secret })
  const by = { id: holder_id }
  const asking = (client: Client) => [
    () => client.sendRaw(getCustomer, { params: by }),
    () => client.sendRaw(getExternalCustomer, { params: { external_id: 'old-holder' } }),
    () => client.sendRaw(updateCustomer, { params: by, body: { name: 'Changed' } }),
    () => client.sendRaw(deleteCustomer, { params: by }),
    () => client.sendRaw(deleteCustomer, { params: by, query: { anonymize: 'true' } }),
    () => client.sendRaw(getCustomerState, { params: by }),
    () => client.sendRaw(listCustomerMembers, { params: by }),
    () => client.sendRaw(getMember, { params: { ...by, member_id } }),
  ]
  const absent = { error: 'ResourceNotFound', detail: 'Not found' }
  const moved = { ...absent, moved: { member_id, customer_id } }
  const foreseen = await api.send(getCustomer, { params: by, headers: ahead })
  expect([foreseen.status, foreseen.body]).toEqual([404, moved])

  await shop.phase('phase2')
  for (const ask of asking(api)) expect(await ask()).toMatchObject({ status: 404, body: moved })
  expect((await byPerson.sendRaw(getCustomer, { params: by })).body).toEqual(moved)
  for (const ask of asking(stranger.api)) expect((await ask()).body).toEqual(absent)
  expect((await api.sendRaw(getCustomer, { params: { id: newId(world.clock.wall()) } })).body).toEqual(absent)
  expect((await api.sendRaw(getMember, { params: { id: customer_id, member_id: holder_id } })).body).toEqual(absent)
  // In a request body, the old id is invalid input, because no customer has it.
  expect(locs(await api.sendRaw(createCustomerSession, { body: { customer_id: holder_id } }))).toEqual(['body.customer_id'])

  await shop.phase('phase1')
  expect((await api.call(deleteCustomer, { params: by }), await api.sendRaw(getCustomer, { params: by })).body).toEqual(absent)
  await shop.phase('phase2')
  expect((await api.sendRaw(getCustomer, { params: by })).body).toEqual(absent)
})

test('reading an existing customer takes no more SQL statements in phase 2 than before', async () => {
  const team = await open()
  const count = async () => (await statementsOf(() => team.api.call(getCustomer, { params: { id: team.customer_id } }))).statements.length
  await count()
  const before = await count()
  await team.shop.phase('phase2')
  expect(await count()).toBe(before)
})

test('previews a webhook event as it will be sent after the switch [S6-08]', async () => {
  const team = await open()
  const { api, organization, holder_id, customer_id, member_id } = team
  await api.call(updateCustomer, { params: { id: holder_id }, body: { name: 'Held' } })
  const logged = async (...kinds: string[]) => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ id: string; kind: string; payload: { data: Record<string, unknown> } }>(
        'select id, kind, payload from events where organization_id = $1 and kind = any($2) order by position',
        [organization.id, kinds],
      ),
    )
    return rows
  }
  const see = async (id: string) => api.call(previewWebhookEvent, { params: { id } })
  const dataOf = (body: Record<string, unknown> | null) => body!.data as Record<string, unknown>

  const seats = await logged('customer_seat.assigned', 'customer_seat.claimed')
  expect(seats.length).toBe(2)
  for (const { id, payload } of seats) {
    const shown = await see(id)
    expect(shown).toMatchObject({ event_id: id, sent: payload, changed: ['data.customer_id'] })
    expect(shown.phase2).toEqual({ ...payload, data: { ...payload.data, customer_id } })
  }

  const [grant] = await logged('benefit_grant.created')
  const shown = await see(grant!.id)
  expect(dataOf(shown.sent)).toMatchObject({ customer_id: holder_id, customer: { id: holder_id }, member_id })
  expect(dataOf(shown.phase2)).toMatchObject({ customer_id, customer: { id: customer_id, type: 'team', name: 'Works' }, member_id })
  expect(shown.changed).toEqual(expect.arrayContaining(['data.customer_id', 'data.customer.id', 'data.customer.type']))
  expect(shown.changed.every((path) => path.startsWith('data.customer'))).toBe(true)

  for (const { id, payload } of await logged('customer.created', 'customer.updated')) {
    const { phase2, changed } = await see(id)
    if (payload.data.id === holder_id) expect([phase2, changed]).toEqual([null, []])
    else expect([dataOf(phase2), changed]).toEqual([{ ...payload.data, type: 'team' }, ['data.type']])
  }
  const [order] = await logged('order.paid')
  expect((await see(order!.id)).changed).toEqual(['data.customer.type'])
  const [product] = await logged('product.created')
  expect(await see(product!.id)).toMatchObject({ phase2: product!.payload, changed: [] })

  await team.shop.phase('phase2')
  const { seat } = await teams.claim(await teams.assign(team))
  const later = (await logged('customer_seat.claimed')).at(-1)!
  expect(later.payload.data.id).toBe(seat.id)
  expect(await see(later.id)).toMatchObject({ phase2: later.payload, changed: [] })

  const person = await world.person()
  await world.join(organization.id, person.id, 'member')
  const answers = [world.client({ token: (await person.token()).secret }), (await world.shop()).api].map((client) =>
    client.sendRaw(previewWebhookEvent, { params: { id: later.id } }),
  )
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([403, 404])
})
