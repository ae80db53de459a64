import {
  createOrganization,
  getOrganization,
  listOrganizations,
  Organization,
  organizationUpdated,
  updateOrganization,
  type OrganizationRole,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { asOwner } from '../../../../test/harness/database.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { permissions } from '../permissions.ts'
import { capabilities } from './organizations.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const body = (slug: string) => ({ name: 'Acme', slug })

test('an operator creates an organization, becomes its owner and finds it', async () => {
  const operator = await world.person({ is_operator: true })
  const api = world.client({ token: (await operator.token()).secret })
  const made = await api.call(createOrganization, {
    body: { ...body('  First-One '), default_presentment_currency: 'eur', socials: [{ platform: 'github', url: 'https://github.example/acme' }] },
  })
  expect(made).toMatchObject({ slug: 'first-one', status: 'active', default_presentment_currency: 'eur', modified_at: null })
  expect(made.feature_settings).toMatchObject({ member_model_enabled: true, seat_based_pricing_enabled: true })
  expect(await api.call(getOrganization, { params: { id: made.id } })).toEqual(made)
  expect((await api.call(listOrganizations, { query: { slug: 'first-one' } })).items).toEqual([made])
  expect((await api.call(listOrganizations, { query: { slug: 'no-such' } })).pagination).toEqual({ total_count: 0, max_page: 0, next_cursor: null })
})

test('a sandbox organization can start without the member model, to test the migration [S3-01]', async () => {
  const operator = await world.person({ is_operator: true })
  const api = world.client({ token: (await operator.token()).secret })
  const made = await api.call(createOrganization, { body: { ...body('as-it-was'), member_model: 'legacy' } })
  expect(made.feature_settings).toMatchObject({ member_model_enabled: false })
  expect(made).not.toHaveProperty('member_model')
  expect((await api.call(createOrganization, { body: { ...body('as-it-is'), member_model: 'members' } })).feature_settings).toMatchObject({
    member_model_enabled: true,
  })
  const unknown = await api.sendRaw(createOrganization, { body: { ...body('as-it-never-was'), member_model: 'none' } })
  expect(unknown).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'member_model'], input: 'none' }] } })
})

test('every new production organization has the member model [S3-01]', async () => {
  const production = await openWorld({ environment: 'production' })
  try {
    const operator = await production.person({ is_operator: true })
    const api = production.client({ token: (await operator.token()).secret })
    expect(await api.send(createOrganization, { body: { ...body('too-late'), member_model: 'legacy' } })).toMatchObject({
      status: 422,
      body: { detail: [{ loc: ['body', 'member_model'], type: 'value_error', input: 'legacy' }] },
    })
    expect((await api.call(createOrganization, { body: body('too-late') })).feature_settings).toMatchObject({ member_model_enabled: true })
  } finally {
    await production.close()
  }
})

test('only operators create organizations until the deployment allows it for all users', async () => {
  const person = await world.person()
  const api = world.client({ token: (await person.token()).secret })
  const closed = await api.send(createOrganization, { body: body('closed-door') })
  expect(closed).toMatchObject({ status: 403, body: { error: 'CannotCreateOrganizationError' } })
  await asOwner(world.database.name, (owner) => owner.query('update deployment set organization_creation_open = true'))
  try {
    const made = await api.call(createOrganization, { body: body('open-door') })
    const narrow = await world
      .client({ token: (await person.token()).secret }, { 'polar-organization': made.id })
      .send(createOrganization, { body: body('another-door') })
    expect(narrow).toMatchObject({ status: 403, body: { error: 'CannotCreateOrganizationError' } })
  } finally {
    await asOwner(world.database.name, (owner) => owner.query('update deployment set organization_creation_open = false'))
  }
})

test('an organization token cannot create organizations', async () => {
  const organization = await world.organization()
  const answer = await world.client({ token: (await organization.token()).secret }).send(createOrganization, { body: body('by-machine') })
  expect(answer).toMatchObject({ status: 401, body: { error: 'Unauthorized' } })
})

test('concurrent requests cannot create two organizations with the same slug', async () => {
  const operator = await world.person({ is_operator: true })
  const api = world.client({ token: (await operator.token()).secret })
  const answers = await Promise.all(Array.from({ length: 20 }, () => api.send(createOrganization, { body: body('wanted') })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  for (const refused of answers.filter(({ status }) => status !== 201))
    expect(refused).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'slug'], type: 'value_error', input: 'wanted' }] } })
})

test('reports all validation errors of a request together, with location, reason and input [S2-14, S7-01]', async () => {
  const operator = await world.person({ is_operator: true })
  const answer = await world.client({ token: (await operator.token()).secret }).sendRaw(createOrganization, {
    body: {
      name: 'ab',
      slug: 'No Spaces',
      email: 'nowhere',
      country: 'XX',
      socials: [
        { platform: 'x', url: 'https://a.example' },
        { platform: 'myspace', url: 7 },
      ],
      legal_entity: { type: 'cat' },
    },
  })
  expect(answer.status).toBe(422)
  const { detail } = answer.body as { detail: { loc: unknown[]; type: string; msg: string; input: unknown }[] }
  const found = Object.fromEntries(detail.map((problem) => [problem.loc.join('.'), problem]))
  expect(Object.keys(found).toSorted()).toEqual([
    'body.country',
    'body.email',
    'body.legal_entity.type',
    'body.name',
    'body.slug',
    'body.socials.1.platform',
    'body.socials.1.url',
  ])
  expect(found['body.name']).toMatchObject({ type: 'string_too_short', input: 'ab' })
  expect(found['body.socials.1.platform']).toMatchObject({ loc: ['body', 'socials', 1, 'platform'], type: 'enum', input: 'myspace' })
  expect(found['body.socials.1.url']).toMatchObject({ type: 'string_type', msg: 'Expected text, received a number.' })
  expect(found['body.legal_entity.type']).toMatchObject({ type: 'union_tag_invalid' })
})

test('an update of an organization keeps absent fields, clears nullable fields set to null, and emits an event', async () => {
  const organization = await world.organization()
  const api = world.client({ token: (await organization.token()).secret })
  const params = { id: organization.id }
  const first = await api.call(updateOrganization, {
    params,
    body: { website: 'https://acme.example', embed_hosts: ['Shop.Acme.example'], details: { product_description: 'Anvils' } },
  })
  expect(first).toMatchObject({ website: 'https://acme.example', embed_hosts: ['shop.acme.example'], embed_hosts_enforced: true, name: organization.name })
  expect(first.details_submitted_at).not.toBeNull()
  const second = await api.call(updateOrganization, {
    params,
    body: { website: null, name: null, feature_settings: { checkout_localization_enabled: true, overview_metrics: ['revenue'] } },
  })
  expect(second).toMatchObject({
    website: null,
    name: organization.name,
    feature_settings: { checkout_localization_enabled: true, overview_metrics: ['revenue'] },
  })
  expect(second.modified_at).not.toBeNull()

  const events = await eventually('both events have a sequence number', async () => {
    const { rows } = await world.database.owner((owner) =>
      owner.query<{ sequence: string; payload: { type: string; data: unknown } }>(
        'select sequence, payload from events where organization_id = $1 and sequence is not null order by sequence',
        [organization.id],
      ),
    )
    return rows.length === 2 && rows
  })
  expect(events.map(({ sequence }) => sequence)).toEqual(['1', '2'])
  expect(events[1]!.payload).toMatchObject({ type: organizationUpdated.kind, data: second })
  expect(Organization.safeParse(events[1]!.payload.data).success).toBe(true)
})

test.each([
  [{ feature_settings: { seat_based_pricing_enabled: false } }, 422, 'RequestValidationError'],
  [{ feature_settings: { member_model_enabled: false } }, 422, 'RequestValidationError'],
  [{ feature_settings: { member_model_enabled: true } }, 422, 'RequestValidationError'],
  [{ sso_enforced: true }, 409, 'SSOEnforcementRequiresConnection'],
  [{ dispute_settings: { auto_accept_below_amount: 100 } }, 403, 'DisputeAutoAcceptNotEnabled'],
])('refuses the organization update %j', async (change, status, error) => {
  const organization = await world.organization()
  const answer = await world.client({ token: (await organization.token()).secret }).send(updateOrganization, { params: { id: organization.id }, body: change })
  expect(answer).toMatchObject({ status, body: { error } })
  if ('feature_settings' in change && 'member_model_enabled' in change.feature_settings) expect(JSON.stringify(answer.body)).toContain('/v1/member-migration/')
  const { rows } = await world.database.owner((owner) => owner.query('select 1 from events where organization_id = $1', [organization.id]))
  expect(rows).toHaveLength(0)
})

test('only roles that manage the organization can update it', async () => {
  const organization = await world.organization()
  for (const role of ['admin', 'finance', 'member'] as const satisfies OrganizationRole[]) {
    const person = await world.person()
    await world.join(organization.id, person.id, role)
    const api = world.client({ token: (await person.token()).secret })
    const allowed = (permissions['organization:manage'] as readonly string[]).includes(role)
    expect(await api.send(updateOrganization, { params: { id: organization.id }, body: { name: `by ${role}` } })).toMatchObject(
      allowed ? { status: 200 } : { status: 403, body: { error: 'NotPermitted' } },
    )
    expect((await api.send(getOrganization, { params: { id: organization.id } })).status).toBe(200)
  }
})

test('a user without membership gets the same 404 for an existing organization as for a missing one [S2-15]', async () => {
  const [mine, theirs] = await Promise.all([world.organization(), world.organization()])
  const api = world.client({ token: (await mine.token()).secret })
  for (const operation of [getOrganization, updateOrganization]) {
    const foreign = await api.sendRaw(operation, { params: { id: theirs.id }, body: { name: 'Mine now' } })
    const absent = await api.sendRaw(operation, { params: { id: '6f1c3f5e-0000-4000-8000-000000000000' }, body: { name: 'Mine now' } })
    expect(foreign).toMatchObject({ status: 404, body: { error: 'ResourceNotFound', detail: 'Not found' } })
    expect(absent.body).toEqual(foreign.body)
  }
})

test('the list of organizations sorts, limits the page size, counts, and rejects invalid parameters', async () => {
  const person = await world.person()
  for (const slug of ['zz-list', 'aa-list', 'mm-list']) await world.organization({ slug, owner: person.id })
  const api = world.client({ token: (await person.token()).secret })
  const slugs = async (query: object) => (await api.call(listOrganizations, { query })).items.map(({ slug }) => slug)
  expect(await slugs({ sorting: 'name' })).toEqual(['aa-list', 'mm-list', 'zz-list'])
  expect(await slugs({ sorting: '-slug' })).toEqual(['zz-list', 'mm-list', 'aa-list'])
  expect(await slugs({})).toEqual(['zz-list', 'aa-list', 'mm-list'])
  expect(await slugs({ sorting: ['-days_in_status'] })).toEqual(['zz-list', 'aa-list', 'mm-list'])
  const page = await api.call(listOrganizations, { query: { limit: 2, page: 2, sorting: ['slug'] } })
  expect(page.items.map(({ slug }) => slug)).toEqual(['zz-list'])
  expect(page.pagination).toEqual({ total_count: 3, max_page: 2, next_cursor: null })
  expect((await api.call(listOrganizations, { query: { limit: 500 } })).pagination.max_page).toBe(1)
  expect(await api.sendRaw(listOrganizations, { query: { sorting: 'size', page: 0, limit: 'x' } })).toMatchObject({
    status: 422,
    body: { detail: [{ loc: ['query', 'page'] }, { loc: ['query', 'limit'], type: 'int_parsing' }, { loc: ['query', 'sorting', 0], type: 'enum' }] },
  })
})

test('a blocked organization disables its tokens and is hidden from its members', async () => {
  const person = await world.person()
  const organization = await world.organization({ owner: person.id })
  const machine = await organization.token()
  await world.database.owner((owner) => owner.query(`update organizations set status = 'blocked' where id = $1`, [organization.id]))
  expect(capabilities.blocked.api_access).toBe(false)
  expect((await world.client({ token: machine.secret }).send(listOrganizations, { query: {} })).status).toBe(401)
  expect((await world.client({ token: (await person.token()).secret }).call(listOrganizations, { query: {} })).items).toEqual([])
})
