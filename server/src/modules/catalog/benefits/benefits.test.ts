import {
  createBenefit,
  createMeter,
  createProduct,
  deleteBenefit,
  getBenefit,
  getProduct,
  listBenefits,
  listProducts,
  updateBenefit,
  updateMeter,
  updateProductBenefits,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { Secret } from '../../../kernel/secrets.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const note = { type: 'custom' as const, description: 'A secret handshake', properties: { note: 'Psst' } }

test('creates, reads, lists, updates and deletes benefits of every supported type, and emits events [S1-16]', async () => {
  const { api, organization, events } = await world.shop()
  const meter = await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
  const guild_token = world.platform.sealer.seal(new Secret('42'), `discord:${organization.id}`)
  const bodies = [
    note,
    { type: 'feature_flag' as const, description: 'Beta access', properties: {} },
    { type: 'license_keys' as const, description: 'License', properties: { prefix: 'ACME', expires: { ttl: 1, timeframe: 'year' as const }, limit_usage: 5 } },
    { type: 'meter_credit' as const, description: 'Free calls', properties: { units: 100, rollover: true, meter_id: meter.id } },
    { type: 'discord' as const, description: 'Our server', properties: { guild_token, role_id: '7', kick_member: true } },
  ]
  const made = []
  for (const body of bodies) made.push(await api.call(createBenefit, { body: { ...body, metadata: { kind: body.type } } }))
  expect(made[0]).toMatchObject({
    type: 'custom',
    visibility: 'public',
    visibility_configurable: true,
    selectable: true,
    deletable: true,
    is_deleted: false,
    properties: { note: 'Psst' },
  })
  expect(made[1]).toMatchObject({ visibility: 'private', properties: {} })
  expect(made[2]).toMatchObject({ properties: { prefix: 'ACME', expires: { ttl: 1, timeframe: 'year' }, activations: null, limit_usage: 5 } })
  expect(made[4]).toMatchObject({ visibility_configurable: false, properties: { guild_id: '42', role_id: '7', kick_member: true, guild_token } })
  for (const one of made) expect(await api.call(getBenefit, { params: { id: one.id } })).toEqual(one)
  const types = async (query: object) => (await api.call(listBenefits, { query })).items.map(({ type }) => type)
  expect(await types({ sorting: 'created_at' })).toEqual(bodies.map(({ type }) => type))
  expect(await types({ type: ['discord', 'custom'], sorting: 'type' })).toEqual(['custom', 'discord'])
  expect(await types({ id: [made[0]!.id, made[1]!.id], exclude_id: made[0]!.id })).toEqual(['feature_flag'])
  expect(await types({ query: 'lic' })).toEqual(['license_keys'])
  expect(await types({ metadata: { kind: 'custom' } })).toEqual(['custom'])
  const changed = await api.call(updateBenefit, {
    params: { id: made[0]!.id },
    body: { type: 'custom', description: 'A wink', visibility: 'draft', properties: { note: null } } as never,
  })
  expect(changed).toMatchObject({ description: 'A wink', visibility: 'draft', properties: { note: null }, metadata: { kind: 'custom' } })
  // A meter that a benefit refers to cannot be archived.
  const archive = () => api.send(updateMeter, { params: { id: meter.id }, body: { is_archived: true } })
  expect((await archive()).status).toBe(422)
  expect((await api.send(deleteBenefit, { params: { id: made[3]!.id } })).status).toBe(204)
  expect((await archive()).status).toBe(200)
  for (const again of [getBenefit, deleteBenefit] as const) expect((await api.send(again, { params: { id: made[3]!.id } })).status).toBe(404)
  const told = await events('benefit.created', 'benefit.updated')
  expect(told.map(({ type }) => type)).toEqual([...bodies.map(() => 'benefit.created'), 'benefit.updated', 'benefit.updated'])
  expect(told.at(-1)!.data).toMatchObject({ id: made[3]!.id, is_deleted: true })
})

test('rejects an invalid benefit with the location of the problem', async () => {
  const { api, organization } = await world.shop()
  const other = await world.shop()
  const foreign = await other.api.call(createMeter, { body: { name: 'Theirs', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
  const place = async (body: object) => {
    const answer = await api.sendRaw(createBenefit, { body: { description: 'Something', ...body } })
    expect(answer.status, JSON.stringify(answer.body)).toBe(422)
    return (answer.body as { detail: { loc: unknown[] }[] }).detail[0]!.loc.slice(1).join('.')
  }
  const id = newId(world.clock.wall())
  expect(await place({ type: 'downloadables', properties: { files: [id] } })).toBe('properties.files.0')
  expect(await place({ type: 'slack_shared_channel', properties: { slack_integration_id: id, channel_name_template: 'x' } })).toBe(
    'properties.slack_integration_id',
  )
  expect(await place({ type: 'meter_credit', properties: { units: 1, rollover: false, meter_id: foreign.id } })).toBe('properties.meter_id')
  expect(await place({ type: 'meter_credit', properties: { units: 0, rollover: false, meter_id: id } })).toBe('properties.units')
  const elsewhere = world.platform.sealer.seal(new Secret('42'), `discord:${other.organization.id}`)
  for (const guild_token of ['made up', elsewhere])
    expect(await place({ type: 'discord', properties: { guild_token, role_id: '7', kick_member: true } })).toBe('properties.guild_token')
  expect(await place({ type: 'license_keys', properties: { expires: { ttl: 458, timeframe: 'year' } } })).toBe('properties.expires')
  expect(await place({ ...note, description: 'ab' })).toBe('description')
  const guild_token = world.platform.sealer.seal(new Secret('42'), `discord:${organization.id}`)
  expect(await place({ type: 'discord', visibility: 'draft', properties: { guild_token, role_id: '7', kick_member: true } })).toBe('visibility')
  const made = await api.call(createBenefit, { body: note })
  expect(await api.send(updateBenefit, { params: { id: made.id }, body: { type: 'feature_flag' } })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['body', 'type'] }] },
  })
  // A GitHub benefit must be created by a person, not with an organization token.
  const repository = {
    type: 'github_repository' as const,
    description: 'The source',
    properties: { repository_owner: 'acme', repository_name: 'app', permission: 'pull' as const },
  }
  expect((await api.send(createBenefit, { body: repository })).status).toBe(403)
  const person = await world.person()
  const own = await world.organization({ owner: person.id })
  const byPerson = await world.client({ token: (await person.token()).secret }).call(createBenefit, { body: { ...repository, organization_id: own.id } })
  expect(byPerson).toMatchObject({ type: 'github_repository', properties: { repository_name: 'app' } })
})

test('sets the benefits of a product in order, and rejects benefits of another organization', async () => {
  const { api, events } = await world.shop()
  const [a, b] = [await api.call(createBenefit, { body: note }), await api.call(createBenefit, { body: { ...note, description: 'Another' } })]
  const product = await api.call(createProduct, { body: { name: 'Plan', prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
  const set = (benefits: string[]) => api.send(updateProductBenefits, { params: { id: product.id }, body: { benefits } })
  const has = async () => (await api.call(getProduct, { params: { id: product.id } })).benefits.map(({ id }) => id)
  expect((await set([b.id, a.id])).status).toBe(200)
  expect(await has()).toEqual([b.id, a.id])
  expect((await api.call(listProducts, { query: { benefit_id: a.id } })).items.map(({ id }) => id)).toEqual([product.id])
  const stranger = await (await world.shop()).api.call(createBenefit, { body: note })
  expect(await set([a.id, stranger.id])).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'benefits', 1] }] } })
  expect(await has()).toEqual([b.id, a.id])
  await api.call(deleteBenefit, { params: { id: b.id } })
  expect(await has()).toEqual([a.id])
  await world.database.owner((owner) => owner.query('update benefits set selectable = false, deletable = false where id = $1', [a.id]))
  expect((await set([])).status).toBe(422)
  expect((await set([a.id])).status).toBe(200)
  expect((await api.send(deleteBenefit, { params: { id: a.id } })).status).toBe(403)
  expect((await events('product.updated')).at(-1)!.data).toMatchObject({ benefits: [{ id: a.id }] })
})
