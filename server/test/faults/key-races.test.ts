import {
  activatePortalLicenseKey,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  deactivatePortalLicenseKey,
  getLicenseKey,
  listLicenseKeys,
  validatePortalLicenseKey,
} from '@bursar/contract'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../harness/world.ts'
import { counted } from '../harness/pace.ts'

const rounds = counted('ROUNDS', 40, 10)

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

test('accepts exactly three of fifty parallel activations of a license key that allows three', { timeout: 600_000 }, async () => {
  const { api, organization } = await world.shop()
  const benefit = await api.call(createBenefit, {
    body: { type: 'license_keys', description: 'Desktop app', properties: { activations: { limit: 3, enable_customer_admin: false } } },
  })
  const customer = await api.call(createCustomer, { body: { email: 'races@people.test' } })
  await api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
  const { id, key } = (await api.call(listLicenseKeys, {})).items[0]!
  const says = { key, organization_id: organization.id }
  const anyone = world.client()
  for (let round = 0; round < rounds; round++) {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, at) => anyone.send(activatePortalLicenseKey, { body: { ...says, label: `Device ${at}` } })),
    )
    const won = answers.filter(({ status }) => status === 200).map(({ body }) => (body as { id: string }).id)
    expect(won, `round ${round}`).toHaveLength(3)
    expect(answers.filter(({ status }) => status === 403)).toHaveLength(47)
    const { activations } = await api.call(getLicenseKey, { params: { id } })
    expect(activations.map((one) => one.id).toSorted()).toEqual(won.toSorted())
    await Promise.all(won.map((activation_id) => anyone.call(deactivatePortalLicenseKey, { body: { ...says, activation_id } })))
  }
})

test('refuses an activation that is deleted while its validation waits for the license key', async () => {
  const { api, organization } = await world.shop()
  const benefit = await api.call(createBenefit, {
    body: { type: 'license_keys', description: 'Desktop app', properties: { activations: { limit: 3, enable_customer_admin: false } } },
  })
  const customer = await api.call(createCustomer, { body: { email: 'waits@people.test' } })
  await api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
  const { id, key } = (await api.call(listLicenseKeys, {})).items[0]!
  const says = { key, organization_id: organization.id }
  const anyone = world.client()
  const activation = await anyone.call(activatePortalLicenseKey, { body: { ...says, label: 'Laptop' } })
  const validate = () => anyone.send(validatePortalLicenseKey, { body: { ...says, activation_id: activation.id, increment_usage: 1 } })
  expect((await validate()).status).toBe(200)
  const blocker = new pg.Client({ connectionString: world.database.owner_url })
  await blocker.connect()
  try {
    await blocker.query('begin')
    await blocker.query('select from license_keys where id = $1 for no key update', [id])
    await blocker.query('delete from license_key_activations where id = $1', [activation.id])
    const waiting = validate()
    await eventually('the validation waits for the license key', async () => {
      const { rows } = await world.database.owner((owner) =>
        owner.query(`select 1 from pg_stat_activity where datname = current_database() and application_name = 'bursar_api' and wait_event_type = 'Lock'`),
      )
      return rows.length > 0
    })
    await blocker.query('commit')
    expect((await waiting).status).toBe(404)
  } finally {
    await blocker.end()
  }
  expect(await api.call(getLicenseKey, { params: { id } })).toMatchObject({ usage: 1, validations: 1, activations: [] })
})
