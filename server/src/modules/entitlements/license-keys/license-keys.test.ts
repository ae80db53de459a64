import { execFileSync } from 'node:child_process'
import {
  activateLicenseKey,
  activatePortalLicenseKey,
  createBenefit,
  createBenefitGrant,
  createCustomer,
  createTestClock,
  deactivateLicenseKey,
  deactivatePortalLicenseKey,
  deleteBenefit,
  deleteCustomer,
  getLicenseKey,
  getLicenseKeyActivation,
  getPortalLicenseKey,
  listCustomerMembers,
  listLicenseKeys,
  listPortalLicenseKeys,
  revokeBenefitGrant,
  rotateLicenseKey,
  rotatePortalLicenseKey,
  updateBenefit,
  updateLicenseKey,
  updateSubscription,
  validateLicenseKey,
  validatePortalLicenseKey,
} from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTravels } from '../../../../test/harness/clocks.ts'
import { openEntitlements, type Entitlements } from '../../../../test/harness/entitlements.ts'
import { openWorld, type World } from '../../../../test/harness/world.ts'
import { newId } from '../../../kernel/ids.ts'
import { Hasher, Secret } from '../../../kernel/secrets.ts'
import { validate } from './using.ts'

let world: World
let people: Entitlements
beforeAll(async () => {
  world = await openWorld()
  people = await openEntitlements(world)
})
afterAll(async () => {
  await people.close()
  await world.close()
})

type Shop = Awaited<ReturnType<Entitlements['open']>>
type Answer = { status: number; body: unknown }
const errorOf = ({ status, body }: Answer) => `${status} ${(body as { error?: string } | undefined)?.error ?? ''}`.trim()
const locs = (answer: Answer) =>
  answer.status === 422 ? (answer.body as { detail: { loc: (string | number)[] }[] }).detail.map(({ loc }) => loc.join('.')) : [`${answer.status}`]
const unknown = () => newId(world.clock.wall())
const day = 86_400_000

const limited = { prefix: 'ACME', activations: { limit: 3, enable_customer_admin: true }, limit_usage: 10, expires: { ttl: 1, timeframe: 'month' as const } }

/** A seller with a product that gives license keys. */
const openKeys = async (properties: object = limited, { phase, recurring = false }: { phase?: 'before' | 'phase1' | 'phase2'; recurring?: boolean } = {}) => {
  const shop = await people.open(phase)
  const benefit = await shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'Desktop app', properties } })
  const sold = await shop.product([benefit], { recurring })
  return { ...shop, benefit, sold }
}
const bought = async (shop: Awaited<ReturnType<typeof openKeys>>, options: Parameters<Shop['buy']>[1] = {}) => {
  const purchase = await shop.buy(shop.sold.id, options)
  const [key] = (await shop.api.call(listLicenseKeys, { query: { customer_id: [purchase.customer_id] } })).items
  return { ...purchase, key: key!, says: { key: key!.key, organization_id: shop.organization.id } }
}
/** The same operations, called by the seller's server and by an anonymous bearer of the key. */
const doors = (shop: { api: Shop['api'] }) => {
  const anyone = world.client()
  return [
    { by: 'seller', api: shop.api, validate: validateLicenseKey, activate: activateLicenseKey, deactivate: deactivateLicenseKey },
    { by: 'anyone', api: anyone, validate: validatePortalLicenseKey, activate: activatePortalLicenseKey, deactivate: deactivatePortalLicenseKey },
  ] as const
}

test('creates a license key with its grant: a prefix and a random UUID in capitals, stored only hashed and sealed [S1-16] [S2-08]', async () => {
  const shop = await openKeys()
  const { key, customer_id } = await bought(shop)
  expect(key.key).toMatch(/^ACME-[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}$/)
  expect(key).toMatchObject({
    customer_id,
    customer: { id: customer_id },
    benefit_id: shop.benefit.id,
    display_key: `****-${key.key.slice(-6)}`,
    status: 'granted',
    limit_activations: 3,
    limit_usage: 10,
    usage: 0,
    validations: 0,
    last_validated_at: null,
  })
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: customer_id } })).items
  expect(key.member_id).toBe(owner!.id)
  const [grant] = await shop.grants()
  expect(grant).toMatchObject({ is_granted: true, properties: { license_key_id: key.id, display_key: key.display_key } })
  expect((await shop.told())[0]).toMatchObject({ type: 'benefit_grant.created', data: { properties: { license_key_id: key.id } } })
  const plain = await openKeys({})
  const other = (await bought(plain)).key
  expect(other.key).toMatch(/^[0-9A-F]{8}-/)
  expect(other).toMatchObject({ limit_activations: null, limit_usage: null, expires_at: null })
  // A rotation with an idempotency key stores the answer for replays. The stored answer is sealed, because it contains the license key.
  const again = world.client({ token: (await shop.organization.token()).secret }, { 'idempotency-key': 'once' })
  const rotated = await again.call(rotateLicenseKey, { params: { id: key.id } })
  expect(await again.call(rotateLicenseKey, { params: { id: key.id } })).toEqual(rotated)
  const dump = execFileSync('pg_dump', ['--data-only', '--inserts', world.database.owner_url], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  expect(dump).toContain(key.id)
  for (const secret of [key.key, other.key, rotated.key]) expect(dump.toUpperCase()).not.toContain(secret.slice(-36))
})

test('each grant has its own license key, which is created with the grant and stays the same after another reconciliation', async () => {
  const shop = await openKeys()
  const first = await bought(shop)
  await shop.buy(shop.sold.id, { customer_id: first.customer_id })
  const keys = (await shop.api.call(listLicenseKeys, { query: { customer_id: [first.customer_id] } })).items
  expect(new Set(keys.map(({ key }) => key)).size).toBe(2)
  await shop.reconcile(first)
  expect((await shop.api.call(listLicenseKeys, {})).items).toEqual(keys)
})

describe('validating a license key', () => {
  test('counts each successful validation, by the seller or by an anonymous bearer', async () => {
    const shop = await openKeys()
    const { key, says, customer_id } = await bought(shop)
    for (const [at, { api, validate }] of doors(shop).entries()) {
      const answer = await api.call(validate, {
        body: { ...says, benefit_id: key.benefit_id, customer_id, increment_usage: 2, conditions: {}, activation_id: null },
      })
      expect(answer).toMatchObject({ id: key.id, key: key.key, usage: 2 * (at + 1), validations: at + 1, activation: null })
      expect(Date.parse(answer.last_validated_at!)).toBeGreaterThan(world.clock.wall().getTime() - 60_000)
    }
    expect(await shop.api.call(getLicenseKey, { params: { id: key.id } })).toMatchObject({ usage: 4, validations: 2, modified_at: key.modified_at })
  })

  test('returns 404 if key, seller, benefit, customer, activation or conditions do not match, and counts no validation', async () => {
    const shop = await openKeys()
    const { key, says } = await bought(shop)
    const elsewhere = await openKeys()
    const theirs = await bought(elsewhere)
    const activation = await shop.api.call(activateLicenseKey, { body: { ...says, label: 'Laptop', conditions: { disk: 'x1', cores: 8 } } })
    const foreign = await elsewhere.api.call(activateLicenseKey, { body: { ...theirs.says, label: 'Laptop' } })
    for (const { api, validate } of doors(shop)) {
      for (const body of [
        { ...says, key: `${says.key}X` },
        { ...says, key: says.key.toLowerCase() },
        { ...says, key: theirs.says.key },
        { ...says, organization_id: theirs.says.organization_id },
        { ...says, organization_id: unknown() },
        { ...says, benefit_id: elsewhere.benefit.id },
        { ...says, customer_id: theirs.customer_id },
        { ...says, activation_id: unknown() },
        { ...says, activation_id: foreign.id },
        { ...says, activation_id: activation.id },
        { ...says, activation_id: activation.id, conditions: { disk: 'x1' } },
        { ...says, activation_id: activation.id, conditions: { disk: 'x1', cores: '8' } },
        { ...says, activation_id: activation.id, conditions: { disk: 'x1', cores: 8, more: true } },
      ])
        expect([body, errorOf(await api.send(validate, { body }))]).toEqual([body, '404 ResourceNotFound'])
      for (const body of [{ key: says.key }, { ...says, key: '' }, { ...says, increment_usage: -1 }, { ...says, activation_id: 'x' }])
        expect((await api.sendRaw(validate, { body })).status).toBe(422)
    }
    expect(await shop.api.call(getLicenseKey, { params: { id: key.id } })).toMatchObject({ validations: 0 })
    for (const { api, validate } of doors(shop))
      expect(await api.call(validate, { body: { ...says, activation_id: activation.id, conditions: { cores: 8, disk: 'x1' } } })).toMatchObject({
        activation: { id: activation.id, label: 'Laptop', license_key_id: key.id },
      })
  })

  test('rejects a validation beyond the usage limit without counting it', async () => {
    const shop = await openKeys({ limit_usage: 5 })
    const { key, says } = await bought(shop)
    for (const { api, validate } of doors(shop)) {
      const use = (increment_usage: number) => api.send(validate, { body: { ...says, increment_usage } })
      expect((await use(2)).status).toBe(200)
      expect(await use(4)).toMatchObject({ status: 400, body: { error: 'BadRequest', detail: expect.stringMatching(/has [24] of 5 uses; 4 more/) } })
    }
    const { usage, validations } = await shop.api.call(getLicenseKey, { params: { id: key.id } })
    expect({ usage, validations }).toEqual({ usage: 4, validations: 2 })
    // A key that has reached its usage limit is still valid if the request does not increment the usage.
    await shop.api.call(validateLicenseKey, { body: { ...says, increment_usage: 1 } })
    expect((await shop.api.send(validateLicenseKey, { body: { ...says, increment_usage: 1 } })).status).toBe(400)
    expect((await shop.api.send(validateLicenseKey, { body: says })).status).toBe(200)
    // Without a usage limit, the usage of a key can rise to 2,147,483,647, the largest 32-bit integer.
    await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { limit_usage: null, usage: 2_147_483_640 } })
    expect((await shop.api.send(validateLicenseKey, { body: { ...says, increment_usage: 8 } })).status).toBe(400)
    expect((await shop.api.send(validateLicenseKey, { body: { ...says, increment_usage: 7 } })).status).toBe(200)
  })

  test('counts all concurrent validations, and never exceeds the usage limit', async () => {
    const shop = await openKeys({ limit_usage: 30 })
    const { key, says } = await bought(shop)
    const answers = await Promise.all(Array.from({ length: 50 }, () => shop.api.send(validateLicenseKey, { body: { ...says, increment_usage: 1 } })))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(30)
    expect(await shop.api.call(getLicenseKey, { params: { id: key.id } })).toMatchObject({ usage: 30, validations: 30 })
  })

  test('an anonymous bearer of a key sees only the name of the payer', async () => {
    const shop = await openKeys()
    const customer = await shop.api.call(createCustomer, {
      body: {
        email: 'concealed@people.test',
        name: 'Ada',
        external_id: 'crm-7',
        metadata: { tier: 'secret-tier' },
        billing_address: { country: 'DE', line1: 'Hidden Street 1' },
        tax_id: 'DE136695976',
      },
    })
    const { says } = await bought(shop, { customer_id: customer.id })
    const [, anyone] = doors(shop)
    const answers = [
      await anyone.api.call(anyone.validate, { body: says }),
      (await anyone.api.call(anyone.activate, { body: { ...says, label: 'X' } })).license_key,
    ]
    for (const answer of answers) {
      expect(answer.customer).toMatchObject({
        id: customer.id,
        name: 'Ada',
        billing_address: null,
        billing_name: null,
        tax_id: null,
        metadata: {},
        external_id: null,
      })
      expect(JSON.stringify(answer)).not.toMatch(/Hidden Street|DE136695976|secret-tier|crm-7/)
    }
    // The seller's own server sees the full customer.
    expect((await shop.api.call(validateLicenseKey, { body: says })).customer).toMatchObject({ external_id: 'crm-7', tax_id: ['DE136695976', 'eu_vat'] })
  })

  test('the audit log records changes of a license key without its secret, and records no validations', async () => {
    const shop = await openKeys()
    const { key, says } = await bought(shop)
    const logged = () =>
      people.query<{ operation: string; changes: { changes: { table: string; fields: object }[] } }>(
        'select operation, changes from audit_log where organization_id = $1 order by position',
        [shop.organization.id],
      )
    const before = await logged()
    await world.client().call(validatePortalLicenseKey, { body: says })
    expect(await logged()).toEqual(before)
    await shop.api.call(rotateLicenseKey, { params: { id: key.id } })
    const after = await logged()
    const change = after.at(-1)!.changes.changes.find(({ table }) => table === 'license_keys')!
    expect(Object.keys(change.fields)).toEqual(['display_key'])
  })
})

describe('activating a license key', () => {
  test('a key can be activated up to its limit, and removing an activation allows another one', async () => {
    const shop = await openKeys()
    const { key, says } = await bought(shop)
    for (const { api, activate, deactivate, validate } of doors(shop)) {
      const made = []
      for (const label of ['One', 'Two', 'Three']) made.push(await api.call(activate, { body: { ...says, label, meta: { os: 'linux' } } }))
      expect(made[0]).toMatchObject({ license_key_id: key.id, label: 'One', meta: { os: 'linux' }, license_key: { id: key.id, key: key.key } })
      expect(await api.send(activate, { body: { ...says, label: 'Four' } })).toMatchObject({
        status: 403,
        body: { error: 'NotPermitted', detail: expect.stringContaining('3 of 3') },
      })
      expect((await shop.api.call(getLicenseKey, { params: { id: key.id } })).activations.map(({ label }) => label)).toEqual(['One', 'Two', 'Three'])
      expect(await shop.api.call(getLicenseKeyActivation, { params: { id: key.id, activation_id: made[1]!.id } })).toMatchObject({
        label: 'Two',
        license_key: { id: key.id },
      })
      expect((await api.send(deactivate, { body: { ...says, activation_id: made[1]!.id } })).status).toBe(204)
      expect(errorOf(await api.send(deactivate, { body: { ...says, activation_id: made[1]!.id } }))).toBe('404 ResourceNotFound')
      expect(errorOf(await api.send(validate, { body: { ...says, activation_id: made[1]!.id } }))).toBe('404 ResourceNotFound')
      expect((await shop.api.send(getLicenseKeyActivation, { params: { id: key.id, activation_id: made[1]!.id } })).status).toBe(404)
      const four = await api.call(activate, { body: { ...says, label: 'Four' } })
      for (const { id } of [made[0]!, made[2]!, four]) await api.call(deactivate, { body: { ...says, activation_id: id } })
    }
  })

  test('rejects activating a key that has no activations, or that is unknown, expired, disabled or revoked', async () => {
    const shop = await openKeys({})
    const { says } = await bought(shop)
    const elsewhere = await openKeys()
    const theirs = await bought(elsewhere)
    const foreign = await elsewhere.api.call(activateLicenseKey, { body: { ...theirs.says, label: 'X' } })
    for (const { api, activate, deactivate } of doors(shop)) {
      const label = 'Laptop'
      expect(await api.send(activate, { body: { ...says, label } })).toMatchObject({
        status: 403,
        body: { detail: expect.stringContaining('cannot be activated') },
      })
      expect(errorOf(await api.send(activate, { body: { ...says, key: theirs.says.key, label } }))).toBe('404 ResourceNotFound')
      expect(errorOf(await api.send(activate, { body: { ...says, organization_id: unknown(), label } }))).toBe('404 ResourceNotFound')
      expect(errorOf(await api.send(deactivate, { body: { ...says, activation_id: foreign.id } }))).toBe('404 ResourceNotFound')
      expect((await api.sendRaw(activate, { body: { ...says, label: '' } })).status).toBe(422)
    }
    const limitedShop = await openKeys()
    const { key, says: named } = await bought(limitedShop)
    const first = await limitedShop.api.call(activateLicenseKey, { body: { ...named, label: 'First' } })
    for (const { body, why } of [
      { body: { expires_at: new Date(world.clock.wall().getTime() - 1000).toISOString() }, why: 'expired' },
      { body: { expires_at: null, status: 'disabled' as const }, why: 'disabled' },
      { body: { status: 'revoked' as const }, why: 'revoked' },
    ]) {
      await limitedShop.api.call(updateLicenseKey, { params: { id: key.id }, body })
      for (const { api, activate, validate } of doors(limitedShop)) {
        expect(await api.send(activate, { body: { ...named, label: 'X' } })).toMatchObject({ status: 403, body: { detail: expect.stringContaining(why) } })
        expect(errorOf(await api.send(validate, { body: named }))).toBe('404 ResourceNotFound')
      }
    }
    // An activation of an unusable key can still be removed.
    expect((await world.client().send(deactivatePortalLicenseKey, { body: { ...named, activation_id: first.id } })).status).toBe(204)
  })
})

describe('settings of a license key', () => {
  test('the key of an order expires, and the key of a subscription does not', async () => {
    const once = await openKeys()
    const clock = await once.api.call(createTestClock, { body: { now: '2027-01-31T12:00:00Z' } })
    const { key, says } = await bought(once, { clock_id: clock.id })
    expect(key.expires_at).toBe('2027-02-28T12:00:00.000Z')
    expect((await once.api.send(validateLicenseKey, { body: says })).status).toBe(200)
    await openTravels(world, people.deployment).travel(once.api, clock.id, '2027-02-28T12:00:00.000Z')
    for (const { api, validate } of doors(once)) expect(errorOf(await api.send(validate, { body: says }))).toBe('404 ResourceNotFound')
    const monthly = await openKeys(limited, { recurring: true })
    expect((await bought(monthly)).key.expires_at).toBeNull()
  })

  test('an edit of the benefit applies to all keys, except for settings overridden for one key, even with null', async () => {
    const shop = await openKeys()
    const [plain, own, cleared] = [await bought(shop), await bought(shop), await bought(shop)]
    const set = (id: string, body: object) => shop.api.call(updateLicenseKey, { params: { id }, body })
    expect(await set(own.key.id, { limit_activations: 7, limit_usage: 70 })).toMatchObject({
      limit_activations: 7,
      limit_usage: 70,
      expires_at: own.key.expires_at,
    })
    await set(cleared.key.id, { limit_activations: null, limit_usage: null, expires_at: null })
    const properties = {
      prefix: 'NEW',
      activations: { limit: 1, enable_customer_admin: false },
      limit_usage: 99,
      expires: { ttl: 2, timeframe: 'day' as const },
    }
    const edit = (changes: object) =>
      shop.api.sendRaw(updateBenefit, { params: { id: shop.benefit.id }, body: { type: 'license_keys', properties: { ...properties, ...changes } } })
    expect((await edit({})).status).toBe(200)
    await people.pass()
    const read = async ({ key: { id } }: { key: { id: string } }) => shop.api.call(getLicenseKey, { params: { id } })
    const inTwoDays = (key: { created_at: string }) => Date.parse(key.created_at) + 2 * day
    const after = await read(plain)
    expect(after).toMatchObject({ key: plain.key.key, limit_activations: 1, limit_usage: 99 })
    expect(Date.parse(after.expires_at!)).toBe(inTwoDays(after))
    const kept = await read(own)
    expect(kept).toMatchObject({ limit_activations: 7, limit_usage: 70 })
    expect(Date.parse(kept.expires_at!)).toBe(inTwoDays(kept))
    expect(await read(cleared)).toMatchObject({ limit_activations: null, limit_usage: null, expires_at: null })
    // A key that was revoked during the edit gets the edited settings when it is granted again, except overridden ones.
    await set(plain.key.id, { status: 'revoked' })
    await set(own.key.id, { status: 'revoked' })
    await edit({ limit_usage: 55 })
    await people.pass()
    await set(plain.key.id, { status: 'granted' })
    await set(own.key.id, { status: 'granted' })
    expect(await read(plain)).toMatchObject({ limit_usage: 55 })
    expect(await read(own)).toMatchObject({ limit_usage: 70 })
    // New keys use the edited benefit.
    expect((await bought(shop)).key.key).toMatch(/^NEW-/)
  })

  test('rejects an invalid update of a key with the location of the error, and changes nothing', async () => {
    const shop = await openKeys()
    const { key } = await bought(shop)
    const wrong = (body: object) => shop.api.sendRaw(updateLicenseKey, { params: { id: key.id }, body })
    expect(locs(await wrong({ usage: -1 }))).toEqual(['body.usage'])
    expect(locs(await wrong({ limit_activations: 0 }))).toEqual(['body.limit_activations'])
    expect(locs(await wrong({ limit_usage: 0 }))).toEqual(['body.limit_usage'])
    expect(locs(await wrong({ status: 'lost' }))).toEqual(['body.status'])
    expect(await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: {} })).toMatchObject({ usage: 0, limit_usage: 10, status: 'granted' })
    expect(await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { usage: 3, status: null } })).toMatchObject({
      usage: 3,
      limit_usage: 10,
      status: 'granted',
    })
    const stranger = await openKeys()
    for (const id of [key.id, unknown()]) {
      expect(errorOf(await stranger.api.send(updateLicenseKey, { params: { id }, body: { usage: 1 } }))).toBe('404 ResourceNotFound')
      expect(errorOf(await stranger.api.send(rotateLicenseKey, { params: { id } }))).toBe('404 ResourceNotFound')
      expect(errorOf(await stranger.api.send(getLicenseKey, { params: { id } }))).toBe('404 ResourceNotFound')
    }
  })
})

describe('a license key and its grant', () => {
  test.each([
    { bought: 'once', recurring: false },
    { bought: 'by subscription', recurring: true },
  ])('revoking a key revokes its grant at once, and granting the key restores the grant (bought $bought)', async ({ recurring }) => {
    const shop = await openKeys(limited, { recurring })
    const { key, says, ...purchase } = await bought(shop)
    const valid = async () => (await world.client().send(validatePortalLicenseKey, { body: says })).status
    const activation = await shop.api.call(activateLicenseKey, { body: { ...says, label: 'Laptop' } })
    expect(await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'revoked' } })).toMatchObject({ status: 'revoked' })
    expect(await valid()).toBe(404)
    expect(await shop.grants()).toMatchObject([{ is_granted: false, is_revoked: true }])
    // Another reconciliation restores neither the key nor the grant.
    await shop.reconcile(purchase)
    expect(await valid()).toBe(404)
    expect(await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'granted' } })).toMatchObject({ status: 'granted', key: key.key })
    expect(await valid()).toBe(200)
    expect(await shop.grants()).toMatchObject([{ is_granted: true, is_revoked: false, properties: { license_key_id: key.id } }])
    expect((await shop.api.call(getLicenseKey, { params: { id: key.id } })).activations.map(({ id }) => id)).toEqual([activation.id])
    expect((await shop.told()).map(({ type }) => type)).toEqual(['benefit_grant.created', 'benefit_grant.revoked', 'benefit_grant.created'])
    await shop.reconcile(purchase)
    expect(await valid()).toBe(200)
  })

  test('a key becomes invalid as soon as its grant is revoked, for any reason', async () => {
    const shop = await openKeys(limited, { recurring: true })
    const { says, subscription_id, customer_id } = await bought(shop)
    const valid = async (named = says) => (await world.client().send(validatePortalLicenseKey, { body: named })).status
    const [grant] = await shop.grants()
    expect(await valid()).toBe(200)
    await shop.api.call(revokeBenefitGrant, { params: { grant_id: grant!.id } })
    expect(await valid()).toBe(404)
    const second = await bought(shop)
    await shop.api.call(updateSubscription, { params: { id: second.subscription_id! }, body: { revoke: true } })
    await people.pass()
    expect(await valid(second.says)).toBe(404)
    // A key cannot be granted again after its subscription has ended.
    expect(errorOf(await shop.api.send(updateLicenseKey, { params: { id: second.key.id }, body: { status: 'granted' } }))).toBe('403 NotPermitted')
    expect(await shop.api.call(getLicenseKey, { params: { id: second.key.id } })).toMatchObject({ status: 'revoked' })
    // A key of a deleted customer is invalid, even before the jobs have revoked it.
    const third = await bought(shop)
    await shop.api.call(deleteCustomer, { params: { id: third.customer_id } })
    expect(await valid(third.says)).toBe(404)
    await people.pass()
    expect(await shop.api.call(getLicenseKey, { params: { id: third.key.id } })).toMatchObject({ status: 'revoked' })
    const fourth = await bought(shop)
    await shop.api.call(deleteBenefit, { params: { id: shop.benefit.id } })
    await people.pass()
    expect(await valid(fourth.says)).toBe(404)
    expect([subscription_id, customer_id]).not.toContain(null)
  })

  test('a manually granted key can be restored while its customer and its benefit exist', async () => {
    const shop = await openKeys()
    const customer = await shop.api.call(createCustomer, { body: { email: 'hand@people.test' } })
    const grant = await shop.api.call(createBenefitGrant, { body: { customer_id: customer.id, benefit_id: shop.benefit.id } })
    const [key] = (await shop.api.call(listLicenseKeys, {})).items
    expect(grant.properties).toEqual({ license_key_id: key!.id, display_key: key!.display_key })
    expect(key!.expires_at).not.toBeNull()
    const set = (status: 'granted' | 'revoked' | 'disabled') => shop.api.send(updateLicenseKey, { params: { id: key!.id }, body: { status } })
    expect((await set('revoked')).status).toBe(200)
    expect(await shop.grants()).toMatchObject([{ is_granted: false }])
    expect((await set('granted')).status).toBe(200)
    expect(await shop.grants()).toMatchObject([{ is_granted: true }])
    await set('revoked')
    await shop.api.call(deleteBenefit, { params: { id: shop.benefit.id } })
    expect(errorOf(await set('granted'))).toBe('403 NotPermitted')
    expect(await shop.grants()).toMatchObject([{ is_granted: false }])
  })

  test('a disabled key stays disabled while its grant changes, until the seller enables it', async () => {
    const shop = await openKeys()
    const { key, says } = await bought(shop)
    const status = async () => (await shop.api.call(getLicenseKey, { params: { id: key.id } })).status
    const valid = async () => (await world.client().send(validatePortalLicenseKey, { body: says })).status
    await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'disabled' } })
    expect(await valid()).toBe(404)
    expect(await shop.grants()).toMatchObject([{ is_granted: true }])
    // The benefit is removed from the product and added again.
    await shop.give(shop.sold.id, [])
    await people.pass()
    expect(await shop.grants()).toMatchObject([{ is_granted: false }])
    expect(await status()).toBe('disabled')
    await shop.give(shop.sold.id, [shop.benefit])
    await people.pass()
    expect(await shop.grants()).toMatchObject([{ is_granted: true }])
    expect([await status(), await valid()]).toEqual(['disabled', 404])
    await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'granted' } })
    expect([await status(), await valid()]).toEqual(['granted', 200])
  })
})

test('rotating a key invalidates the old secret at once, and keeps limits, usage and activations', async () => {
  const shop = await openKeys()
  const { key, says, customer_id } = await bought(shop)
  const activation = await shop.api.call(activateLicenseKey, { body: { ...says, label: 'Laptop' } })
  await shop.api.call(validateLicenseKey, { body: { ...says, increment_usage: 4 } })
  const rotated = await shop.api.call(rotateLicenseKey, { params: { id: key.id } })
  expect(rotated).toMatchObject({ id: key.id, usage: 4, validations: 1, limit_usage: 10, status: 'granted' })
  expect(rotated.key).toMatch(/^ACME-/)
  expect(rotated.key).not.toBe(key.key)
  expect((await world.client().send(validatePortalLicenseKey, { body: says })).status).toBe(404)
  expect((await world.client().send(validatePortalLicenseKey, { body: { ...says, key: rotated.key, activation_id: activation.id } })).status).toBe(200)
  expect(await shop.grants()).toMatchObject([{ properties: { license_key_id: key.id, display_key: rotated.display_key } }])
  expect((await shop.told()).at(-1)).toMatchObject({
    type: 'benefit_grant.updated',
    data: { properties: { display_key: rotated.display_key }, previous_properties: { display_key: key.display_key } },
  })
  // The seller may rotate a disabled key, its holder may not. A revoked key cannot be rotated at all.
  const portal = await shop.portal(customer_id)
  await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'disabled' } })
  expect(errorOf(await portal.send(rotatePortalLicenseKey, { params: { id: key.id } }))).toBe('400 RotateNotPermitted')
  expect(await shop.api.call(rotateLicenseKey, { params: { id: key.id } })).toMatchObject({ status: 'disabled' })
  await shop.api.call(updateLicenseKey, { params: { id: key.id }, body: { status: 'revoked' } })
  expect(errorOf(await shop.api.send(rotateLicenseKey, { params: { id: key.id } }))).toBe('400 RotateNotPermitted')
})

test('finds a key hashed with an older pepper and rehashes it with the newest', async () => {
  const shop = await openKeys()
  const { key, says } = await bought(shop)
  const [fresh, old] = [
    Buffer.alloc(32, 7),
    Buffer.from(
      Object.values(world.environmentVariables)
        .find((value) => value.startsWith('1:'))!
        .slice(2),
      'base64',
    ),
  ]
  const hasher = new Hasher([
    { version: 2, key: fresh },
    { version: 1, key: old },
  ])
  const scope = {
    organizations: new Map([[shop.organization.id, 'machine' as const]]),
    phases: new Map([[shop.organization.id, 'phase2' as const]]),
    confined: false,
  }
  await world.transact((tx) => validate(tx, scope, { ...world.platform, hasher }, says))
  expect(await people.query('select hash, pepper from license_keys where id = $1', [key.id])).toEqual([{ hash: hasher.hash(new Secret(says.key)), pepper: 2 }])
})

describe('lists of license keys', () => {
  test('filters and sorts keys, and excludes other sellers’ keys', async () => {
    const shop = await openKeys()
    const [a, b] = [await bought(shop), await bought(shop)]
    await shop.api.call(validateLicenseKey, { body: { ...a.says, increment_usage: 5 } })
    await shop.api.call(updateLicenseKey, { params: { id: b.key.id }, body: { status: 'disabled' } })
    const ids = async (query: object) => (await shop.api.call(listLicenseKeys, { query })).items.map(({ id }) => (id === a.key.id ? 'a' : 'b'))
    expect(await ids({})).toEqual(['b', 'a'])
    expect((await shop.api.call(listLicenseKeys, { query: { limit: 1 } })).pagination.total_count).toBe(2)
    expect(await ids({ sorting: ['created_at'] })).toEqual(['a', 'b'])
    expect(await ids({ sorting: ['-usage'] })).toEqual(['a', 'b'])
    expect(await ids({ sorting: ['validations'] })).toEqual(['b', 'a'])
    expect(await ids({ status: ['disabled'] })).toEqual(['b'])
    expect(await ids({ customer_id: [a.customer_id] })).toEqual(['a'])
    expect(await ids({ member_id: [b.key.member_id!] })).toEqual(['b'])
    expect(await ids({ benefit_id: [shop.benefit.id], limit: 1 })).toEqual(['b'])
    expect(await ids({ benefit_id: [unknown()] })).toEqual([])
    const stranger = await openKeys()
    expect((await stranger.api.call(listLicenseKeys, {})).items).toEqual([])
  })

  test.each(['before', 'phase1', 'phase2'] as const)(
    'in phase %s a key is shown with, and found by, the customer that the member phase determines [S2-10]',
    async (phase) => {
      const shop = await openKeys(limited, { phase })
      const { id: product_id } = await shop.product([shop.benefit], { seats: true })
      const purchase = await shop.buy(product_id, { seats: 3 })
      const anna = await shop.seat(purchase)
      const bert = await shop.seat(purchase, { holder: false })
      const keyOf = async (member_id: string) => (await shop.api.call(listLicenseKeys, { query: { member_id: [member_id] } })).items[0]!
      const [ofAnna, ofBert] = [await keyOf(anna.member_id), await keyOf(bert.member_id)]
      const shown = anna.holder_customer_id ?? purchase.customer_id
      expect(ofAnna).toMatchObject({ customer_id: shown, customer: { id: shown }, member_id: anna.member_id })
      expect(ofBert).toMatchObject({ customer_id: purchase.customer_id, member_id: bert.member_id })
      const found = async (customer_id: string) =>
        (await shop.api.call(listLicenseKeys, { query: { customer_id: [customer_id], sorting: ['created_at'] } })).items.map(({ id }) => id)
      expect(await found(purchase.customer_id)).toEqual(phase === 'phase2' ? [ofAnna.id, ofBert.id] : [ofBert.id])
      if (anna.holder_customer_id) expect(await found(anna.holder_customer_id)).toEqual([ofAnna.id])
      const says = { key: ofAnna.key, organization_id: shop.organization.id }
      const validAs = async (customer_id: string) => (await world.client().send(validatePortalLicenseKey, { body: { ...says, customer_id } })).status
      expect(await validAs(shown)).toBe(200)
      if (anna.holder_customer_id) expect(await validAs(purchase.customer_id)).toBe(404)
      // A member who loses the seat loses the key, and colleagues keep theirs. A new seat restores the same key.
      await shop.revokeSeat(anna)
      expect(await validAs(shown)).toBe(404)
      expect(await keyOf(bert.member_id)).toEqual(ofBert)
      await shop.seat(purchase, { again: anna })
      expect(await validAs(shown)).toBe(200)
      expect((await keyOf(anna.member_id)).key).toBe(ofAnna.key)
    },
  )

  test('a key is shown with the payer after the switch to the member model, and with the holder again after the undo [S2-10]', async () => {
    const shop = await openKeys(limited, { phase: 'phase1' })
    const { id: product_id } = await shop.product([shop.benefit], { seats: true })
    const purchase = await shop.buy(product_id, { seats: 2 })
    const anna = await shop.seat(purchase)
    const read = async () => (await shop.api.call(listLicenseKeys, {})).items[0]!
    const before = await read()
    expect(before.customer_id).toBe(anna.holder_customer_id)
    await shop.phase('phase2')
    expect(await read()).toMatchObject({
      id: before.id,
      key: before.key,
      customer_id: purchase.customer_id,
      customer: { type: 'team' },
      member_id: anna.member_id,
    })
    // A member's key does not reveal the payer's email address.
    const answer = await world.client().call(validatePortalLicenseKey, { body: { key: before.key, organization_id: shop.organization.id } })
    expect(answer.customer).toMatchObject({ id: purchase.customer_id, email: null })
    await shop.phase('phase1')
    expect((await read()).customer_id).toBe(anna.holder_customer_id)
  })
})

describe('license keys in the portal', () => {
  test('members see their own keys, the owner also sees the customer’s keys, and no member sees keys of another team', async () => {
    const shop = await openKeys()
    const { id: product_id } = await shop.product([shop.benefit], { seats: true })
    const purchase = await shop.buy(product_id, { seats: 3 })
    const [anna, bert] = [await shop.seat(purchase), await shop.seat(purchase)]
    const direct = await bought(shop, { customer_id: purchase.customer_id })
    const other = await shop.buy(product_id, { seats: 1 })
    const carl = await shop.seat(other)
    const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: purchase.customer_id }, query: { role: 'owner' } })).items
    const keys = (await shop.api.call(listLicenseKeys, { query: { sorting: ['created_at'] } })).items
    const keyOf = (member_id: string) => keys.find((key) => key.member_id === member_id)!
    const seen = async (member_id: string | undefined, customer_id = purchase.customer_id) => {
      const portal = await shop.portal(customer_id, member_id)
      const { items } = await portal.call(listPortalLicenseKeys, {})
      for (const { id } of items) expect((await portal.call(getPortalLicenseKey, { params: { id } })).id).toBe(id)
      for (const { id } of keys.filter((key) => !items.some((item) => item.id === key.id))) {
        expect(errorOf(await portal.send(getPortalLicenseKey, { params: { id } }))).toBe('404 ResourceNotFound')
        expect(errorOf(await portal.send(rotatePortalLicenseKey, { params: { id } }))).toBe('404 ResourceNotFound')
      }
      return items.map(({ id }) => id)
    }
    expect(await seen(anna.member_id)).toEqual([keyOf(anna.member_id).id])
    expect(await seen(bert.member_id)).toEqual([keyOf(bert.member_id).id])
    expect(await seen(owner!.id)).toEqual([direct.key.id])
    expect(await seen(carl.member_id, other.customer_id)).toEqual([keyOf(carl.member_id).id])

    const portal = await shop.portal(purchase.customer_id, anna.member_id)
    await shop.api.call(activateLicenseKey, { body: { key: keyOf(anna.member_id).key, organization_id: shop.organization.id, label: 'Laptop' } })
    const shown = await portal.call(getPortalLicenseKey, { params: { id: keyOf(anna.member_id).id } })
    expect(shown).toMatchObject({ key: keyOf(anna.member_id).key, customer: { id: purchase.customer_id, email: null }, activations: [{ label: 'Laptop' }] })
    expect((await portal.call(listPortalLicenseKeys, { query: { benefit_id: [unknown()] } })).items).toEqual([])
    const rotated = await portal.call(rotatePortalLicenseKey, { params: { id: shown.id } })
    expect(rotated.key).not.toBe(shown.key)
    expect((await world.client().send(validatePortalLicenseKey, { body: { key: shown.key, organization_id: shop.organization.id } })).status).toBe(404)
    // The portal no longer shows a revoked key.
    await shop.revokeSeat(anna)
    expect((await portal.send(getPortalLicenseKey, { params: { id: shown.id } })).status).not.toBe(200)
  })

  test('before the member model, a seat holder sees the key of their seat, and the payer sees only the payer’s own keys', async () => {
    const shop = await openKeys(limited, { phase: 'before' })
    const { id: product_id } = await shop.product([shop.benefit], { seats: true })
    const purchase = await shop.buy(product_id, { seats: 2 })
    const anna = await shop.seat(purchase)
    const direct = await bought(shop, { customer_id: purchase.customer_id })
    const [ofAnna] = (await shop.api.call(listLicenseKeys, { query: { customer_id: [anna.holder_customer_id!] } })).items
    const ids = async (customer_id: string) => (await (await shop.portal(customer_id)).call(listPortalLicenseKeys, {})).items.map(({ id }) => id)
    expect(await ids(anna.holder_customer_id!)).toEqual([ofAnna!.id])
    expect(await ids(purchase.customer_id)).toEqual([direct.key.id])
  })
})

test('anonymizing a customer erases the labels of their license-key activations', async () => {
  const shop = await openKeys()
  const { key, says, customer_id } = await bought(shop)
  await shop.api.call(activateLicenseKey, { body: { ...says, label: 'Zelda’s laptop', meta: { owner: 'Zelda' }, conditions: { user: 'zelda' } } })
  await shop.api.call(deleteCustomer, { params: { id: customer_id }, query: { anonymize: 'true' } })
  await people.pass()
  expect(await people.query('select label, meta, conditions from license_key_activations where license_key_id = $1', [key.id])).toEqual([
    { label: null, meta: {}, conditions: {} },
  ])
  expect((await shop.api.call(getLicenseKey, { params: { id: key.id } })).activations).toMatchObject([{ label: '', meta: {} }])
  expect(await people.query(`select from audit_log where organization_id = $1 and changes::text ilike '%zelda%'`, [shop.organization.id])).toEqual([])
})
