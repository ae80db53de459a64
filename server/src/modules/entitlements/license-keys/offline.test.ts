import {
  activateLicenseKey,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createTestClock,
  getLicenseKey,
  listLicenceSigningKeys,
  listLicenseKeys,
  signLicenseKey,
  updateLicenseKey,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { documentedVerifier, type ReadLicence } from '../../../../test/harness/licences.ts'
import { launch } from '../../../../test/harness/process.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { days, minutes } from '../../../platform/clock.ts'

let world: World
let people: Entitlements
let readLicence: ReadLicence
beforeAll(async () => {
  world = await openWorld()
  people = await openEntitlements(world)
  readLicence = await documentedVerifier()
})
afterAll(async () => {
  await people.close()
  await world.close()
})

type Answer = { status: number; body: unknown }
const errorOf = ({ status, body }: Answer) => `${status} ${(body as { error?: string } | undefined)?.error ?? ''}`.trim()
const seconds = () => world.clock.wall().getTime() / 1000
const published = async () => (await world.client().call(listLicenceSigningKeys, {})).keys

const openKey = async (properties: object, { test_clock = false, recurring = true } = {}) => {
  const shop = await people.open()
  const benefit = await shop.api.call(createBenefit, {
    body: { type: 'license_keys', description: 'Desktop app', metadata: { edition: 'pro' }, properties },
  })
  const product = await shop.product([benefit], { recurring })
  const clock = test_clock ? await shop.api.call(createTestClock, { body: { now: '2031-05-01T00:00:00.000Z' } }) : undefined
  const bought = await shop.buy(product.id, clock ? { clock_id: clock.id } : {})
  const [key] = (await shop.api.call(listLicenseKeys, {})).items
  const sign = (body?: object) => shop.api.send(signLicenseKey, { params: { id: key!.id }, ...(body ? { body } : {}) } as never)
  const check = (token: string, keys: readonly object[], now = seconds()) => readLicence(token, { keys, organization_id: shop.organization.id, now })
  const licence = async (body?: object) => (await sign(body)).body
  return { ...shop, benefit, sold: product, bought, key: key!, sign, licence, check }
}

test('a licence states the purchase, the activation and the expiry, and the documented verifier accepts it', async () => {
  const shop = await openKey({ activations: { limit: 2, enable_customer_admin: false }, limit_usage: 9 })
  const activation = await shop.api.call(activateLicenseKey, {
    body: { key: shop.key.key, organization_id: shop.organization.id, label: 'Laptop', meta: { os: 'linux' }, conditions: { disk: 'x1' } },
  })
  const { token, expires_at } = await shop.licence({ activation_id: activation.id })
  const claims = shop.check(token, await published())
  expect(claims).toEqual({
    iss: 'https://bursar.test',
    aud: shop.organization.id,
    sub: shop.key.id,
    jti: expect.any(String),
    iat: expect.any(Number),
    exp: Date.parse(expires_at) / 1000,
    customer_id: shop.bought.customer_id,
    license_key: { display_key: shop.key.display_key, limit_activations: 2, limit_usage: 9, expires_at: null },
    activation: { id: activation.id, label: 'Laptop', meta: { os: 'linux' } },
    benefit: { id: shop.benefit.id, description: 'Desktop app', metadata: { edition: 'pro' } },
    product: { id: shop.sold.id, name: shop.sold.name, metadata: {} },
  })
  expect((claims.exp as number) - (claims.iat as number)).toBe((30 * days) / 1000)
  // The licence contains neither the key nor the activation's conditions.
  expect(Buffer.from(token.split('.')[1]!, 'base64url').toString()).not.toMatch(new RegExp(`${shop.key.key}|x1`))

  // The verifier rejects a licence that was changed, belongs to another seller or has expired.
  const keys = await published()
  const [header, payload, signature] = token.split('.') as [string, string, string]
  const forged = Buffer.from(JSON.stringify({ ...claims, exp: 9_999_999_999 })).toString('base64url')
  expect(() => shop.check(`${header}.${forged}.${signature}`, keys)).toThrow('was changed')
  const flipped = Buffer.from(signature, 'base64url')
  flipped[5]! ^= 4
  expect(() => shop.check(`${header}.${payload}.${flipped.toString('base64url')}`, keys)).toThrow('was changed')
  expect(() => readLicence(token, { keys, organization_id: newId(world.clock.wall()), now: seconds() })).toThrow('another seller')
  expect(() => shop.check(token, keys, Date.parse(expires_at) / 1000)).toThrow('expired')
  expect(shop.check(token, keys, Date.parse(expires_at) / 1000 - 1)).toEqual(claims)
})

test('a licence requires an activation if the key limits its activations, and contains none otherwise', async () => {
  const shop = await openKey({ activations: { limit: 2, enable_customer_admin: false } })
  const other = await openKey({ activations: { limit: 2, enable_customer_admin: false } })
  const foreign = await other.api.call(activateLicenseKey, { body: { key: other.key.key, organization_id: other.organization.id, label: 'X' } })
  for (const body of [undefined, {}, { activation_id: null }])
    expect(await shop.sign(body)).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'activation_id'] }] } })
  for (const activation_id of [foreign.id, newId(world.clock.wall())]) expect(errorOf(await shop.sign({ activation_id }))).toBe('404 ResourceNotFound')
  const free = await openKey({})
  expect(free.check((await free.licence()).token, await published())).toMatchObject({ activation: null, license_key: { limit_activations: null } })
  expect(errorOf(await other.api.send(signLicenseKey, { params: { id: shop.key.id }, body: { activation_id: foreign.id } }))).toBe('404 ResourceNotFound')
})

test('rejects signing a licence for an unusable key, and never signs one beyond the key’s expiry', async () => {
  const shop = await openKey({ expires: { ttl: 10, timeframe: 'day' } }, { recurring: false })
  const { token, expires_at } = await shop.licence()
  expect(Math.abs(Date.parse(expires_at) - Date.parse(shop.key.expires_at!))).toBeLessThanOrEqual(1000)
  expect(Date.parse(expires_at)).toBeLessThanOrEqual(Date.parse(shop.key.expires_at!))
  expect(shop.check(token, await published())).toMatchObject({ license_key: { expires_at: shop.key.expires_at }, product: { id: shop.sold.id } })
  const set = (body: object) => shop.api.call(updateLicenseKey, { params: { id: shop.key.id }, body })
  for (const body of [{ status: 'disabled' }, { status: 'revoked' }]) {
    await set(body)
    expect(errorOf(await shop.sign())).toBe('403 NotPermitted')
  }
  await set({ status: 'granted', expires_at: new Date(world.clock.wall().getTime() - 1000).toISOString() })
  expect(errorOf(await shop.sign())).toBe('403 NotPermitted')
  // A licence that was signed before the key became unusable is valid until it expires, because verification is offline.
  expect(shop.check(token, await published())).toMatchObject({ sub: shop.key.id })

  // With a test clock, the remaining validity counts from the wall clock, which applications check.
  const travelling = await openKey({ expires: { ttl: 10, timeframe: 'day' } }, { recurring: false, test_clock: true })
  expect(travelling.key.expires_at).toBe('2031-05-11T00:00:00.000Z')
  const left = Date.parse((await travelling.licence()).expires_at) - world.clock.wall().getTime()
  expect(Math.abs(left - 10 * days)).toBeLessThan(60_000)
})

test('the licence of a manual grant names no product', async () => {
  const shop = await openKey({})
  const customer = await shop.api.call(createCustomer, { body: { email: 'byhand@people.test' } })
  await shop.api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: shop.benefit.id } })
  const [key] = (await shop.api.call(listLicenseKeys, { query: { customer_id: [customer.id] } })).items
  const { token } = await shop.api.call(signLicenseKey, { params: { id: key!.id }, body: {} })
  expect(shop.check(token, await published())).toMatchObject({ product: null, benefit: { id: shop.benefit.id }, customer_id: customer.id })
})

test('a new licence signing key is published before it signs, and old keys stay published', async () => {
  const shop = await openKey({})
  const kidOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()) as { kid: string; alg: string; typ: string }
  const [first] = await published()
  const before = await shop.licence()
  expect(kidOf(before.token)).toEqual({ alg: 'EdDSA', typ: 'licence+jwt', kid: first!.kid })
  expect(await launch(['keys', 'rotate-licences'], world.environmentVariables).exited).toBe(0)
  const [second, ...rest] = await published()
  expect(rest).toEqual([first])
  expect(second).toMatchObject({ kty: 'OKP', crv: 'Ed25519', alg: 'EdDSA', use: 'sig' })
  // The new key does not sign until every cached key list can contain it.
  expect(kidOf((await shop.licence()).token).kid).toBe(first!.kid)
  world.clock.advance(5 * minutes)
  const after = await shop.licence()
  expect(kidOf(after.token).kid).toBe(second!.kid)
  const keys = await published()
  expect(shop.check(before.token, keys)).toMatchObject({ sub: shop.key.id })
  expect(shop.check(after.token, keys)).toMatchObject({ sub: shop.key.id })
  expect(() => shop.check(after.token, [first!])).toThrow('its key is not known')
  expect((await world.client().send(listLicenceSigningKeys, {})).headers.get('cache-control')).toBe('public, max-age=300')
  // Signing a licence does not change the license key. The private signing key is stored sealed.
  expect(await shop.api.call(getLicenseKey, { params: { id: shop.key.id } })).toMatchObject({ validations: 0, modified_at: null })
  const rows = await people.query<{ sealed: string; public_jwk: object }>('select sealed, public_jwk from licence_signing_keys', [])
  for (const { sealed, public_jwk } of rows) {
    expect(sealed).toMatch(/^1:[A-Za-z0-9+/=]+$/)
    expect(Object.keys(public_jwk)).not.toContain('d')
  }
})
