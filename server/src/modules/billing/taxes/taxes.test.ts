import { getTaxSettings, listAuditLog, updateOrganization, updateTaxSettings, type OrganizationRole } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { TaxUnavailable, type TaxProvider, type TaxQuestion } from '../../../gateways/tax/tax.ts'
import { quoteTax, taxableLines } from './taxes.ts'

let world: World
beforeAll(async () => {
  world = await openWorld({ worker: true })
})
afterAll(() => world.close())

const german = { country: 'DE' as const, rate: '19', reverse_charge: true }
const ask = (organization_id: string, given: Partial<TaxQuestion> = {}): TaxQuestion => ({
  organization_id,
  subject: 'checkout',
  currency: 'eur',
  lines: taxableLines([{ amount: 1000, discount_amount: 0 }]),
  address: { country: 'DE', state: null },
  tax_id: null,
  behavior_option: 'location',
  ...given,
})
const quote = (question: TaxQuestion, provider: TaxProvider | null = null) => quoteTax(world.api.postgres.db, provider, question)

test('returns the tax settings, replaces them as a whole and writes changes to the audit log', async () => {
  const { api, organization } = await world.shop()
  expect(await api.call(getTaxSettings, { query: {} })).toEqual({ organization_id: organization.id, modified_at: null, provider: 'none', rates: [] })
  const first = await api.call(updateTaxSettings, {
    body: {
      provider: 'rates',
      rates: [
        { country: 'US', state: 'US-NY', rate: 8.875, reverse_charge: false },
        { country: 'US', rate: '0', reverse_charge: false },
        german,
        { country: 'CA', state: 'CA-ON', rate: '13.0001', reverse_charge: false },
      ],
    },
  })
  expect(first).toEqual({
    organization_id: organization.id,
    modified_at: expect.any(String),
    provider: 'rates',
    rates: [
      { country: 'CA', state: 'CA-ON', rate: '13.0001', reverse_charge: false },
      { country: 'DE', state: null, rate: '19', reverse_charge: true },
      { country: 'US', state: null, rate: '0', reverse_charge: false },
      { country: 'US', state: 'US-NY', rate: '8.875', reverse_charge: false },
    ],
  })
  expect(await api.call(getTaxSettings, { query: { organization_id: organization.id } })).toEqual(first)
  const rates = [
    { ...german, rate: '20.50' },
    { country: 'US' as const, rate: '0', reverse_charge: false },
  ]
  expect((await api.call(updateTaxSettings, { body: { provider: 'none', rates } })).rates).toEqual([
    { country: 'DE', state: null, rate: '20.5', reverse_charge: true },
    { country: 'US', state: null, rate: '0', reverse_charge: false },
  ])
  const entry = await eventually('the change is in the audit log', async () => {
    const { items } = await api.call(listAuditLog, { query: { operation: ['tax-settings:update'] } })
    return items.length === 2 && items[0]
  })
  // Unchanged rates are not in the log.
  expect(entry.changes.map(({ resource, action }) => `${resource} ${action}`).toSorted()).toEqual([
    'tax_rates deleted',
    'tax_rates deleted',
    'tax_rates updated',
    'tax_settings updated',
  ])
  expect(entry.changes.find(({ resource, action }) => resource === 'tax_rates' && action === 'updated')!.fields).toEqual({
    rate: { before: 190_000, after: 205_000 },
  })
  expect((await api.call(updateTaxSettings, { body: { provider: 'none', rates: [] } })).rates).toEqual([])
})

test('rejects an invalid list of tax rates and reports all of its problems', async () => {
  const { api } = await world.shop()
  const places = async (body: object) => {
    const answer = await api.sendRaw(updateTaxSettings, { body })
    expect(answer.status).toBe(422)
    return (answer.body as { detail: { loc: unknown[] }[] }).detail.map(({ loc }) => loc.slice(1).join('.'))
  }
  const one = (given: object) => places({ provider: 'rates', rates: [{ ...german, ...given }] })
  for (const rate of ['-1', '100.0001', '1e1', '19.00001', '', ' 19', 101, -0.5, 0.00001, '1000']) expect(await one({ rate })).toEqual(['rates.0.rate'])
  for (const country of ['XX', 'de', '']) expect(await one({ country })).toEqual(['rates.0.country'])
  for (const [country, state] of [
    ['DE', 'DE-BY'],
    ['US', 'CA'],
    ['US', 'US-XX'],
    ['US', 'CA-ON'],
    ['US', 'us-ca'],
    ['US', ''],
  ])
    expect(await one({ country, state })).toEqual(['rates.0.state'])
  expect(
    await places({
      provider: 'rates',
      rates: [
        german,
        { ...german, rate: '7' },
        { ...german, country: 'US', state: 'US-CA' },
        { ...german, country: 'US', state: 'US-CA' },
        { ...german, state: 'DE-BE' },
      ],
    }),
  ).toEqual(['rates.1.country', 'rates.3.state', 'rates.4.state'])
  expect(await one({ reverse_charge: undefined })).toEqual(['rates.0.reverse_charge'])
  expect(await places({ provider: 'rates' })).toEqual(['rates'])
  expect(await places({ provider: 'somebody', rates: [] })).toEqual(['provider'])
  expect(await places({ provider: 'rates', rates: Array.from({ length: 501 }, () => german) })).toEqual(['rates'])
  expect(await api.call(getTaxSettings, { query: {} })).toMatchObject({ provider: 'none', rates: [] })
})

test('rejects the tax service if the deployment has none', async () => {
  const { api } = await world.shop()
  const answer = await api.send(updateTaxSettings, { body: { provider: 'service', rates: [] } })
  expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ['body', 'provider'], input: 'service' }] } })
  expect(await api.call(getTaxSettings, { query: {} })).toMatchObject({ provider: 'none' })
})

test('lets finance roles read the tax settings, and only owners and admins change them', async () => {
  const owner = await world.person()
  const organization = await world.organization({ owner: owner.id })
  const body = { organization_id: organization.id, provider: 'rates' as const, rates: [german] }
  const query = { organization_id: organization.id }
  const answers = async (role: OrganizationRole | 'stranger') => {
    const person = role === 'owner' ? owner : await world.person()
    if (role !== 'stranger' && role !== 'owner') await world.join(organization.id, person.id, role)
    const api = world.client({ cookie: await person.cookie() })
    return [(await api.sendRaw(getTaxSettings, { query })).status, (await api.sendRaw(updateTaxSettings, { body })).status]
  }
  expect(await answers('owner')).toEqual([200, 200])
  expect(await answers('admin')).toEqual([200, 200])
  expect(await answers('finance')).toEqual([200, 403])
  expect(await answers('member')).toEqual([403, 403])
  expect(await answers('stranger')).toEqual([422, 422])
  const nobody = world.client()
  expect([(await nobody.sendRaw(getTaxSettings, { query })).status, (await nobody.sendRaw(updateTaxSettings, { body })).status]).toEqual([401, 401])
  const reader = world.client({ token: (await organization.token(['organizations:read'])).secret })
  const { organization_id: _, ...own } = body
  expect([(await reader.sendRaw(getTaxSettings, {})).status, (await reader.sendRaw(updateTaxSettings, { body: own })).status]).toEqual([200, 403])
})

test('requires the organization id from members of several organizations', async () => {
  const person = await world.person()
  const [one, another] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
  const api = world.client({ token: (await person.token()).secret })
  expect(await api.sendRaw(getTaxSettings, {})).toMatchObject({ status: 422, body: { detail: [{ loc: ['query', 'organization_id'], type: 'missing' }] } })
  expect(await api.sendRaw(updateTaxSettings, { body: { provider: 'none', rates: [] } })).toMatchObject({ status: 422 })
  await api.call(updateTaxSettings, { body: { organization_id: one.id, provider: 'rates', rates: [german] } })
  const read = async (organization_id: string) => (await api.call(getTaxSettings, { query: { organization_id } })).rates.length
  expect([await read(one.id), await read(another.id)]).toEqual([1, 0])
})

test('stores one complete list of tax rates under concurrent updates', async () => {
  const { api } = await world.shop()
  const lists = Array.from({ length: 6 }, (_, at) =>
    (['DE', 'FR', 'IT', 'ES'] as const).slice(at % 3).map((country) => ({ country, rate: `${at + 1}`, reverse_charge: false })),
  )
  const answers = await Promise.all(lists.map((rates) => api.send(updateTaxSettings, { body: { provider: 'rates', rates } })))
  expect(answers.map(({ status }) => status)).toEqual(lists.map(() => 200))
  const { rates } = await api.call(getTaxSettings, { query: {} })
  expect(new Set(rates.map(({ rate }) => rate)).size).toBe(1)
  expect(rates).toHaveLength(lists[Number(rates[0]!.rate) - 1]!.length)
})

test("quotes the tax by the seller's settings", async () => {
  const { api, organization } = await world.shop()
  expect(await quote(ask(organization.id))).toEqual({ rate: 0, behavior: 'inclusive', jurisdiction: 'DE', reason: 'not_collecting' })
  await api.call(updateTaxSettings, { body: { provider: 'rates', rates: [german, { country: 'US', state: 'US-NY', rate: '8.875', reverse_charge: false }] } })
  expect(await quote(ask(organization.id))).toEqual({ rate: 190_000, behavior: 'inclusive', jurisdiction: 'DE', reason: 'standard_rated' })
  const newYork = ask(organization.id, { address: { country: 'US', state: 'NY' } })
  expect(await quote(newYork)).toEqual({ rate: 88_750, behavior: 'exclusive', jurisdiction: 'US-NY', reason: 'standard_rated' })
  expect(await quote({ ...newYork, behavior_option: 'inclusive' })).toMatchObject({ behavior: 'inclusive' })
  // Without a seller country, no sale is cross-border.
  const company = ask(organization.id, { tax_id: { value: 'DE136695976', format: 'eu_vat' } })
  expect(await quote(company)).toMatchObject({ rate: 190_000 })
  await api.call(updateOrganization, { params: { id: organization.id }, body: { country: 'FR' } })
  expect(await quote(company)).toEqual({ rate: 0, behavior: 'inclusive', jurisdiction: 'DE', reason: 'reverse_charge' })
  await api.call(updateOrganization, { params: { id: organization.id }, body: { country: 'DE' } })
  expect(await quote(company)).toMatchObject({ rate: 190_000, reason: 'standard_rated' })
  // The rates stay stored while tax collection is off.
  await api.call(updateTaxSettings, { body: { provider: 'none', rates: [german] } })
  expect(await quote(ask(organization.id))).toMatchObject({ rate: 0, reason: 'not_collecting' })
  // The quote also works within a transaction, and each seller has its own rates.
  const other = await world.shop()
  await other.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ ...german, rate: '7' }] } })
  expect(await world.transactAsWorker((tx) => quoteTax(tx, null, ask(other.organization.id)))).toMatchObject({ rate: 70_000 })
})

test('never treats an unknown tax as zero', async () => {
  const { organization } = await world.shop()
  expect(await quote(ask(organization.id, { address: null }))).toBeNull()
  const silent: TaxProvider = {
    quote: async () => {
      throw new TaxUnavailable('it is down')
    },
  }
  await expect(quote(ask(organization.id), silent)).rejects.toThrow(TaxUnavailable)
  expect(await quote(ask(organization.id, { address: null }), silent)).toBeNull()
  for (const rate of [Number.NaN, -1, 0.2, 1_000_001]) {
    const odd: TaxProvider = { quote: async () => ({ rate, behavior: 'exclusive', jurisdiction: 'DE', reason: 'standard_rated' }) }
    await expect(quote(ask(organization.id), odd)).rejects.toThrow(TaxUnavailable)
  }
})
