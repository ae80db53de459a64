import { getSellerIdentity, updateSellerIdentity, type OrganizationRole } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../../../../test/harness/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const acme = { legal_name: 'Acme GmbH', address: { country: 'DE' as const, city: ' Berlin ' }, tax_id: 'DE136695976', footer: 'HRB 1' }

test('replaces the whole seller identity, and returns the name of the organization until an identity is set', async () => {
  const { api, organization } = await world.shop()
  const none = { organization_id: organization.id, modified_at: null, legal_name: organization.name, address: null, tax_id: null, footer: null }
  expect(await api.call(getSellerIdentity, { query: {} })).toMatchObject(none)
  const set = await api.call(updateSellerIdentity, { body: acme })
  expect(set).toMatchObject({ ...acme, email: null, address: { city: 'Berlin', line1: null, country: 'DE' } })
  expect(await api.call(getSellerIdentity, { query: {} })).toEqual(set)
  expect(await api.call(updateSellerIdentity, { body: { legal_name: 'Acme AG', address: { country: 'AT' } } })).toMatchObject({ tax_id: null, footer: null })
  const wrong = await api.sendRaw(updateSellerIdentity, { body: { legal_name: 'two\nlines', address: { city: 'Berlin' } } })
  expect((wrong.body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.join('.'))).toEqual(['body.legal_name', 'body.address.country'])
})

test('lets finance roles read the seller identity, and only owners and admins change it', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const answers = async (role: OrganizationRole | 'stranger') => {
    const person = role === 'owner' ? owner : await world.person()
    if (role !== 'stranger' && role !== 'owner') await world.join(organization.id, person.id, role)
    const api = world.client({ cookie: await person.cookie() })
    const body = { ...acme, organization_id: organization.id }
    return [
      (await api.sendRaw(getSellerIdentity, { query: { organization_id: organization.id } })).status,
      (await api.sendRaw(updateSellerIdentity, { body })).status,
    ]
  }
  expect(await answers('owner')).toEqual([200, 200])
  expect(await answers('finance')).toEqual([200, 403])
  expect(await answers('member')).toEqual([403, 403])
  expect(await answers('stranger')).toEqual([422, 422])
})
