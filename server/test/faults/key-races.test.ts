import {
  activatePortalLicenseKey,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  deactivatePortalLicenseKey,
  getLicenseKey,
  listLicenseKeys,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../harness/world.ts'
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
