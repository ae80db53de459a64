import {
  activatePortalLicenseKey,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createCustomerSession,
  deactivatePortalLicenseKey,
  listLicenceSigningKeys,
  listLicenseKeys,
  listPortalLicenseKeys,
  validateLicenseKey,
  validatePortalLicenseKey,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { stopwatch } from '../../../platform/clock.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  // Keeps the production limit of the operation under test and raises only the others.
  world = await openWorld({ settings: { BURSAR_BUDGETS: JSON.stringify({ api: [[1_000_000, 60]], failed_authentications: [[1_000_000, 60]] }) } })
})
afterAll(() => world.close())

test('limits each IP address to three license-key calls per second without limiting its other requests [S8-08]', async () => {
  const { api, organization } = await world.shop()
  const benefit = await api.call(createBenefit, {
    body: { type: 'license_keys', description: 'Desktop app', properties: { activations: { limit: 3, enable_customer_admin: false } } },
  })
  const customer = await api.call(createCustomer, { body: { email: 'budget@people.test' } })
  await api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: benefit.id } })
  const [key] = (await api.call(listLicenseKeys, {})).items
  const says = { key: key!.key, organization_id: organization.id }
  const anyone = world.client()
  const portal = world.client({ token: (await api.call(createCustomerSession, { body: { customer_id: customer.id } })).token })

  // The three operations share one rate limit, regardless of their outcome. A round counts only if it took less than a second.
  const asks = [
    () => anyone.send(validatePortalLicenseKey, { body: says }),
    () => anyone.send(activatePortalLicenseKey, { body: { ...says, label: 'Laptop' } }),
    () => anyone.send(deactivatePortalLicenseKey, { body: { ...says, activation_id: customer.id } }),
    () => anyone.send(validatePortalLicenseKey, { body: says }),
  ]
  let validations = 0
  const round = async () => {
    const elapsed = stopwatch()
    const answers = await Promise.all(asks.map((ask) => ask()))
    validations += [answers[0]!, answers[3]!].filter(({ status }) => status === 200).length
    if (elapsed() < 1000) return answers
    // Waits until the rate-limit window no longer contains the calls of this round.
    await new Promise((resolve) => setTimeout(resolve, 1100))
    return false
  }
  const answers = await eventually('four calls finish within a second', round)
  const refused = answers.filter(({ status }) => status === 429)
  expect(answers.map(({ status }) => status).filter((status) => status === 429)).toHaveLength(1)
  expect(refused[0]).toMatchObject({ body: { error: 'TooManyRequests' } })
  expect(refused[0]!.headers.get('retry-after')).toBe('1')
  // At the same moment, other requests of this address succeed: the seller's server, the portal and a public endpoint.
  expect((await api.send(validateLicenseKey, { body: says })).status).toBe(200)
  expect((await portal.send(listPortalLicenseKeys, {})).status).toBe(200)
  expect((await anyone.send(listLicenceSigningKeys, {})).status).toBe(200)
  // The rejected call is not counted as a validation. The same call succeeds a second later.
  await eventually('the rate limit allows requests again', async () => (await anyone.send(validatePortalLicenseKey, { body: says })).status === 200)
  expect((await api.call(listLicenseKeys, {})).items[0]).toMatchObject({ validations: validations + 2 })
})
