import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  claimSeat,
  createCustomerSession,
  createMeter,
  createProduct,
  getCustomer,
  getOrder,
  getSeat,
  getSubscription,
  listBenefitGrants,
  listDownloadables,
  listLicenseKeys,
  listMembers,
  listSeats,
  resendSeatInvitation,
  revokeSeat,
  updateSubscription,
  updateCustomer,
  validateLicenseKey,
} from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { digest } from '../../../../test/harness/digest.ts'
import { golden, importBundle, randomBundle, seeded, type Bundle } from '../../../../test/harness/golden.ts'
import { launch } from '../../../../test/harness/process.ts'
import { openTeams, tokenIn } from '../../../../test/harness/teams.ts'
import { eventually, openWorld, type World } from '../../../../test/harness/world.ts'
import { importLegacy } from './importing.ts'
import type { BundleLine } from './records.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const linesOf = <T extends BundleLine['type']>({ lines }: Bundle, type: T) => lines.filter((line) => line.type === type) as Extract<BundleLine, { type: T }>[]
const texts = ({ lines }: Pick<Bundle, 'lines'>) => lines.map((line) => JSON.stringify(line))

/** Returns the items of all pages of a list. */
const all = async <T>(page: (number: number) => Promise<{ items: T[]; pagination: { max_page: number } }>): Promise<T[]> => {
  const items: T[] = []
  for (let number = 1; ; number++) {
    const { items: found, pagination } = await page(number)
    items.push(...found)
    if (number >= pagination.max_page) return items
  }
}

/** Counts the rows of an organization directly in the database. */
const countOf = async (table: string, organization_id: string): Promise<number> => {
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ count: number }>(`select count(*)::int as count from ${table} where organization_id = $1`, [organization_id]),
  )
  return rows[0]!.count
}

test('imports an organization without the member model with its ids, and the API answers as the previous system did [S3-01]', async () => {
  const bundle = golden()
  expect(bundle.counts).toEqual({ buyers: 40, seats: 200, grants: 600, keys: 150 })
  const { api, organization, events, imported } = await importBundle(world, bundle)
  expect(imported.counts).toMatchObject({ seat: { added: 200, known: 0 }, grant: { added: 600, known: 0 }, license_key: { added: 150, known: 0 } })
  expect(organization.member_phase).toBe('before')

  for (const { id, email, external_id = null, deleted_at } of linesOf(bundle, 'customer')) {
    const answer = await api.send(getCustomer, { params: { id } })
    if (deleted_at) expect(answer.status).toBe(404)
    else expect(answer).toMatchObject({ status: 200, body: { id, email, external_id, type: 'individual' } })
  }
  for (const { id, customer_id, seats = null } of linesOf(bundle, 'subscription'))
    expect(await api.call(getSubscription, { params: { id } })).toMatchObject({ id, customer_id, seats, status: 'active' })
  for (const { id, customer_id, seats = null } of linesOf(bundle, 'order'))
    expect(await api.call(getOrder, { params: { id } })).toMatchObject({ id, customer_id, seats, status: 'paid' })

  const buyerOf = new Map([...linesOf(bundle, 'subscription'), ...linesOf(bundle, 'order')].map(({ id, customer_id }) => [id, customer_id]))
  const people = new Map(linesOf(bundle, 'customer').map((person) => [person.id, person]))
  // Expects the current address of a holder who is not deleted, otherwise the address that the seat was assigned to.
  const addressOf = ({ customer_id, email }: Extract<BundleLine, { type: 'seat' }>) => {
    const holder = customer_id ? people.get(customer_id) : undefined
    return (holder && !holder.deleted_at ? holder.email : email) ?? null
  }
  const pools = Map.groupBy(linesOf(bundle, 'seat'), ({ subscription_id, order_id }) => (subscription_id ?? order_id)!)
  for (const [id, seats] of pools) {
    const query = seats[0]!.subscription_id ? { subscription_id: id } : { order_id: id }
    const shown = await all((page) => api.call(listSeats, { query: { ...query, limit: 100, page } }))
    const wanted = seats.map((seat) => ({
      id: seat.id,
      status: seat.status,
      customer_id: seat.customer_id ?? buyerOf.get(id),
      member: null,
      member_id: null,
      customer_email: addressOf(seat),
      seat_metadata: seat.metadata,
    }))
    expect(shown.toSorted((a, b) => a.id.localeCompare(b.id))).toMatchObject(wanted.toSorted((a, b) => a.id.localeCompare(b.id)))
  }

  const grants = new Map((await all((page) => api.call(listBenefitGrants, { query: { limit: 100, page } }))).map((grant) => [grant.id, grant]))
  expect(grants.size).toBe(600)
  for (const { id, customer_id, benefit_id, granted_at, subscription_id = null, order_id = null } of linesOf(bundle, 'grant'))
    expect(grants.get(id)).toMatchObject({
      customer_id,
      benefit_id,
      subscription_id,
      order_id,
      member: null,
      is_granted: !!granted_at,
      is_revoked: !granted_at,
    })

  const keys = new Map((await all((page) => api.call(listLicenseKeys, { query: { limit: 100, page } }))).map((key) => [key.id, key]))
  expect(keys.size).toBe(150)
  for (const { id, key, grant_id, status } of linesOf(bundle, 'license_key')) {
    expect(keys.get(id)).toMatchObject({ key, status, customer_id: grants.get(grant_id)!.customer_id, member_id: null, limit_activations: 3 })
    expect(grants.get(grant_id)).toMatchObject({ properties: { license_key_id: id, display_key: `****-${key.slice(-6)}` } })
    const answer = await api.send(validateLicenseKey, { body: { key, organization_id: organization.id } })
    if (status === 'granted') expect(answer).toMatchObject({ status: 200, body: { id, key } })
    else expect(answer.status).toBe(404)
  }

  const { token } = await api.call(createCustomerSession, { body: { customer_id: bundle.people.again } })
  const downloads = await world.client({ token }).call(listDownloadables, { query: { limit: 100 } })
  const theirs = linesOf(bundle, 'download').filter(({ grant_id }) => grants.get(grant_id)!.customer_id === bundle.people.again)
  expect(theirs).toHaveLength(2)
  expect(downloads.items.map(({ id }) => id).toSorted()).toEqual(theirs.map(({ id }) => id).toSorted())

  // The import creates no members, emits no events and sends no mails.
  expect((await api.call(listMembers, { query: {} })).items).toEqual([])
  expect(await countOf('members', organization.id)).toBe(0)
  expect(await events()).toEqual([])
  expect(world.mail.letters).toEqual([])
})

test('changes nothing when a bundle is imported a second time', async () => {
  const bundle = golden({ seed: 2, size: 0.2 })
  await importBundle(world, bundle)
  const before = await digest(world)
  const again = await importLegacy(world, bundle.slug, texts(bundle))
  expect(again.refused).toEqual([])
  expect(Object.values(again.counts).map(({ added }) => added)).toEqual(Object.keys(again.counts).map(() => 0))
  expect(again.counts.seat!.known).toBe(bundle.counts.seats)
  expect(await digest(world)).toEqual(before)
})

test('the test generator gives the same bundle for the same seed, and small random bundles can be imported', async () => {
  expect(golden({ seed: 3 }).lines).toEqual(golden({ seed: 3 }).lines)
  expect(golden({ seed: 3 }).lines).not.toEqual(golden({ seed: 4, slug: 'golden-3' }).lines)
  for (let seed = 0; seed < 25; seed++) {
    const draw = seeded(seed)
    const bundle = randomBundle(
      Array.from({ length: 80 }, () => draw(1000)),
      `random-${seed}`,
    )
    const { imported } = await importBundle(world, bundle)
    expect(imported.counts.seat?.added ?? 0).toBe(linesOf(bundle, 'seat').length)
  }
  await importBundle(world, randomBundle([], 'random-nothing'))
})

test('a plan change in the imported billing period credits the amount that was paid before the import', async () => {
  const [grand, basic, customer, subscription] = ['1', '2', '3', '4'].map((digit) => `${digit.repeat(8)}-0000-4000-8000-000000000000`) as [
    string,
    string,
    string,
    string,
  ]
  const now = world.clock.business().getTime()
  const moment = (days: number) => new Date(now + days * 86_400_000).toISOString()
  const product = (id: string, name: string, price_amount: number): BundleLine => ({
    type: 'product',
    id,
    created_at: moment(-30),
    name,
    recurring_interval: 'month',
    prices: [{ id: id.replace('-0000-', '-0001-'), amount_type: 'fixed', price_currency: 'usd', price_amount }],
    benefits: [],
  })
  const { api, organization } = await importBundle(world, {
    slug: 'billed-elsewhere',
    files: [],
    lines: [
      { type: 'organization', name: 'Billed elsewhere', slug: 'billed-elsewhere' },
      product(grand, 'Grand', 3000),
      product(basic, 'Basic', 1000),
      { type: 'customer', id: customer, created_at: moment(-30), email: 'anna@example.com' },
      {
        type: 'subscription',
        id: subscription,
        created_at: moment(-30),
        customer_id: customer,
        product_id: grand,
        amount: 2000,
        currency: 'usd',
        current_period_start: moment(-15),
        current_period_end: moment(15),
      },
    ],
  } as unknown as Bundle)
  await api.call(updateSubscription, { params: { id: subscription }, body: { product_id: basic, proration_behavior: 'prorate' } })
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ amount: number }>('select amount::int from billing_entries where organization_id = $1 order by amount', [organization.id]),
  )
  // The change credits half of the 20.00 that were paid, and charges half of the new price.
  expect(rows).toEqual([{ amount: -1000 }, { amount: 500 }])
})

test('an import opens the usage periods of metered subscriptions in its own transaction', async () => {
  const [customer, subscription] = ['5', '6'].map((digit) => `${digit.repeat(8)}-0000-4000-8000-000000000000`) as [string, string]
  const now = world.clock.business().getTime()
  const moment = (days: number) => new Date(now + days * 86_400_000).toISOString()
  const slug = 'metered-elsewhere'
  const { api, organization } = await importBundle(world, {
    slug,
    files: [],
    lines: [
      { type: 'organization', name: 'Metered elsewhere', slug },
      { type: 'customer', id: customer, created_at: moment(-30), email: 'anna@example.com' },
    ],
  } as unknown as Bundle)
  const meter = await api.call(createMeter, { body: { name: 'Calls', filter: { conjunction: 'and', clauses: [] }, aggregation: { func: 'count' } } })
  const product = await api.call(createProduct, {
    body: {
      name: 'Calls',
      recurring_interval: 'month',
      prices: [{ amount_type: 'metered_unit', meter_id: meter.id, unit_amount: '1', price_currency: 'usd' }],
    } as never,
  })
  const line = { type: 'subscription', id: subscription, created_at: moment(-30), customer_id: customer, product_id: product.id, amount: 0, currency: 'usd' }
  const imported = await importLegacy(world, slug, [JSON.stringify({ ...line, current_period_start: moment(-15), current_period_end: moment(15) })])
  expect(imported.refused).toEqual([])
  const { rows } = await world.database.owner((owner) =>
    owner.query('select subscription_id, meter_id, starts_at, ends_at from usage_periods where organization_id = $1', [organization.id]),
  )
  expect(rows).toEqual([{ subscription_id: subscription, meter_id: meter.id, starts_at: new Date(moment(-15)), ends_at: null }])
})

test('an imported seat without holder and address has null for both, sends no invitation, and can be revoked', async () => {
  const bundle = golden({ seed: 5, size: 0, nobody: true })
  const { api } = await importBundle(world, bundle)
  const { id } = linesOf(bundle, 'seat').find(({ status, email, customer_id }) => status === 'pending' && !email && !customer_id)!
  expect(await api.call(getSeat, { params: { seat_id: id } })).toMatchObject({ status: 'pending', email: null, customer_email: null, member: null })
  const before = await digest(world)
  expect(await api.send(resendSeatInvitation, { params: { seat_id: id } })).toMatchObject({ status: 400, body: { error: 'SeatNotPending' } })
  expect(await digest(world)).toEqual(before)
  expect(await api.call(revokeSeat, { params: { seat_id: id } })).toMatchObject({ status: 'revoked', customer_email: null })
  expect(world.mail.letters).toEqual([])
})

test('an imported seat shows the current address of its holder, and the invitation is mailed to that address [S2-05]', async () => {
  const bundle = golden({ seed: 10, size: 0 })
  const { api } = await importBundle(world, bundle)
  const seatOf = (customer_id: string) => linesOf(bundle, 'seat').find((seat) => seat.customer_id === customer_id)!
  const addressOf = async (seat_id: string) => {
    const { email, customer_email, member } = await api.call(getSeat, { params: { seat_id } })
    expect([member, customer_email]).toEqual([null, email])
    return email
  }
  const [claimed, pending] = [seatOf(bundle.people.ordering), seatOf(bundle.people.waiting)]
  const move = (id: string, email: string) => api.call(updateCustomer, { params: { id }, body: { email } })
  expect(await addressOf(seatOf(bundle.people.moved).id)).toBe('moved@golden.test')
  await move(bundle.people.ordering, 'new.address@golden.test')
  expect(await addressOf(claimed.id)).toBe('new.address@golden.test')
  const { items } = await api.call(listSeats, { query: { subscription_id: claimed.subscription_id!, limit: 100 } })
  expect(items.find(({ id }) => id === claimed.id)).toMatchObject({ email: 'new.address@golden.test' })
  // For a deleted holder, the seat shows the address that it was assigned to.
  expect(await addressOf(seatOf(bundle.people.gone).id)).toBe('returned@golden.test')

  const teams = await openTeams(world)
  try {
    // Reads the link from the mail that was sent to the address in the response.
    const invite = async () => teams.invited(await api.call(resendSeatInvitation, { params: { seat_id: pending.id } }))
    const claim = async (invitation_token: string) => (await world.client().send(claimSeat, { body: { invitation_token } })).status
    const first = await invite()
    await move(bundle.people.waiting, 'waiting.elsewhere@golden.test')
    expect(await addressOf(pending.id)).toBe('waiting.elsewhere@golden.test')
    // The first link was mailed to the old address, so it cannot claim the seat for the new address.
    expect(await claim(first)).toBe(400)
    expect(await claim(await invite())).toBe(200)
  } finally {
    await teams.close()
  }
})

test('an imported pending seat can be claimed once after its invitation was sent again', async () => {
  const bundle = golden({ seed: 9, size: 0 })
  const { api, organization } = await importBundle(world, bundle)
  const teams = await openTeams(world)
  try {
    const pending = linesOf(bundle, 'seat').filter(({ status, customer_id }) => status === 'pending' && !customer_id)
    const { id } = pending.find(({ email }) => email === 'unknown@golden.test')!
    const again = await api.call(resendSeatInvitation, { params: { seat_id: id } })
    const invitation_token = await teams.invited(again)
    const accept = () => world.client().send(claimSeat, { body: { invitation_token } })
    const answers = await Promise.all([accept(), accept()])
    expect(answers.map(({ status }) => String(status)).toSorted()).toEqual(['200', '400'])
    const seat = await api.call(getSeat, { params: { seat_id: id } })
    expect(seat).toMatchObject({ status: 'claimed', customer_email: 'unknown@golden.test', member: { email: 'unknown@golden.test', role: 'member' } })
    expect(await api.call(getCustomer, { params: { id: seat.customer_id! } })).toMatchObject({ email: 'unknown@golden.test' })
    expect(seat.customer_id).not.toBe(seat.member!.customer_id)

    // The claim is rejected, because the holder already has a seat of the same purchase.
    const second = pending.find(({ email }) => email === 'MIXED.CASE@GOLDEN.TEST')!
    await api.call(resendSeatInvitation, { params: { seat_id: second.id } })
    await teams.settle()
    const letter = world.mail.letters.find(({ to }) => to.toLowerCase() === second.email!.toLowerCase())!
    const token = tokenIn(letter.text)
    const taken = { id: '11111111-1111-4111-8111-111111111111', subscription_id: second.subscription_id!, customer_id: bundle.people.mixed }
    const seats = [{ type: 'seat', ...taken, status: 'claimed', claimed_at: '2026-01-01T00:00:00Z' }].map((line) => JSON.stringify(line))
    expect((await importLegacy(world, bundle.slug, seats)).refused).toEqual([])
    expect(await world.client().send(claimSeat, { body: { invitation_token: token } })).toMatchObject({
      status: 400,
      body: { error: 'InvalidInvitationToken' },
    })
    // There are two members: one of the buyer, and the owner of the holder's own customer. The rejected claim created none.
    expect(await countOf('members', organization.id)).toBe(2)
  } finally {
    await teams.close()
  }
})

test('reports an invalid line with its number, the received and the expected value, and writes nothing of its part of the bundle', async () => {
  const bundle = golden({ seed: 6, size: 0 })
  const [opening, ...rest] = texts(bundle)
  const { organization } = await importBundle(world, { ...bundle, lines: bundle.lines.slice(0, 1) })
  const customer = linesOf(bundle, 'customer')[0]!
  const [subscription, order] = [linesOf(bundle, 'subscription')[0]!, linesOf(bundle, 'order').find(({ seats }) => !seats)!]
  const grant = linesOf(bundle, 'grant').find(({ subscription_id }) => subscription_id)!
  const key = linesOf(bundle, 'license_key')[0]!
  const seat = linesOf(bundle, 'seat').find(({ status }) => status === 'claimed')!
  const unknown = '11111111-1111-4111-8111-111111111111'
  const wrong: [unknown, RegExp][] = [
    ['{"type":', /Expected one record as JSON, received 8 characters/],
    [{ type: 'seatt', id: unknown }, /type: .*received "seatt"/],
    [{ ...customer, id: 'x' }, /id: .*received "x"/],
    [{ ...customer, mail: 'a@b.c' }, /mail/],
    [{ ...customer, email: 'nowhere' }, /email: Expected an e-mail address\. \(received "nowhere"\)/],
    [{ ...customer, id: unknown }, new RegExp(`email: Buyer0@Golden\\.test \\(case-insensitive\\) already belongs to the customer ${customer.id}`)],
    [{ ...customer, id: unknown, email: 'else@golden.test' }, /external_id: buyer-0 already belongs to the customer/],
    [
      { ...customer, name: 'Another' },
      new RegExp(`The customer ${customer.id} already exists with other values: name is "Name of Buyer0" in the database and "Another" in the file`),
    ],
    [{ ...subscription, id: unknown, customer_id: unknown }, /customer_id: the customer 11111111/],
    [{ ...subscription, id: unknown, product_id: order.product_id }, /product_id: the product .* is a one-time product/],
    [{ ...subscription, id: unknown, seats: null }, /seats: the product .* is priced per seat: give a number \(received null\)/],
    [{ ...subscription, id: unknown, current_period_end: subscription.current_period_start }, /current_period_end: must be after/],
    [{ ...order, id: unknown, seats: 3 }, /seats: .* not priced per seat/],
    [{ ...seat, id: unknown, subscription_id: null }, /subscription_id, order_id: a seat belongs to exactly one of them/],
    [{ ...seat, id: unknown, order_id: order.id }, /subscription_id, order_id: a record belongs to only one of them/],
    [{ ...seat, id: unknown, subscription_id: null, order_id: order.id }, /has no seats/],
    [{ ...seat, id: unknown, customer_id: null }, /customer_id, claimed_at: a claimed seat needs both/],
    [{ ...seat, id: unknown, status: 'pending' }, /invitation_expires_at/],
    [{ ...seat, id: unknown, status: 'revoked' }, /revoked_at/],
    [{ ...grant, id: unknown }, new RegExp(`already have the grant ${grant.id}`)],
    [{ ...grant, id: unknown, granted_at: null }, /granted_at, revoked_at: give at least one/],
    [{ ...grant, id: unknown, subscription_id: null, order_id: order.id, seat_id: null }, /its benefits belong to the buyer: expected/],
    [{ ...key, id: unknown }, new RegExp(`key: already belongs to the license key ${key.id}`)],
    [{ ...key, id: unknown, key: 'ANOTHER-KEY' }, new RegExp(`already has the license key ${key.id}`)],
    [{ ...key, key: 'ANOTHER-KEY' }, /key: the license key .* already exists with another key/],
    [JSON.parse(opening!), /an organization is allowed in the first line only/],
  ]
  const before = await digest(world)
  const lines = [opening!, ...rest, ...wrong.map(([line]) => (typeof line === 'string' ? line : JSON.stringify(line)))]
  // Malformed lines are reported in the whole bundle. Conflicts between lines are reported only in the part that is being written.
  const misshapen = 5
  const first = await importLegacy(world, bundle.slug, lines)
  expect(first.counts).toEqual({})
  expect(first.refused.map(({ line }) => line)).toEqual(wrong.slice(0, misshapen).map((_, at) => rest.length + 2 + at))
  for (const [at, { says }] of first.refused.entries()) expect(says).toMatch(wrong[at]![1])
  const second = await importLegacy(world, bundle.slug, [opening!, ...rest, ...wrong.slice(misshapen).map(([line]) => JSON.stringify(line))])
  expect(second.refused.map(({ line }) => line)).toEqual(wrong.slice(misshapen).map((_, at) => rest.length + 2 + at))
  for (const [at, { says }] of second.refused.entries()) expect(says).toMatch(wrong[at + misshapen]![1])
  for (const { says } of [...first.refused, ...second.refused]) expect(says).not.toContain(key.key)
  expect(await countOf('customers', organization.id)).toBe(0)
  expect(await digest(world)).toEqual(before)
})

test('imports a bundle only into the named organization, and only while that organization has no members', async () => {
  const [opening] = texts(golden({ seed: 7 }))
  const { organization } = await world.shop()
  const into = async (slug: string, lines: string[]) => (await importLegacy(world, slug, lines)).refused
  const customer = JSON.stringify({ type: 'customer', id: '11111111-1111-4111-8111-111111111111', email: 'a@golden.test' })
  expect(await into(organization.slug, [customer])).toEqual([{ line: 1, says: expect.stringMatching(/already has members/) as string }])
  expect(await into('not-there', [customer])).toEqual([{ line: 1, says: expect.stringMatching(/There is no organization not-there/) as string }])
  expect(await into('another', [opening!])).toEqual([{ line: 1, says: 'slug: this bundle is for golden-7, but the import is for another.' }])
  expect(await into('golden-7', ['', opening!, customer])).toEqual([])
  await world.database.owner((owner) =>
    owner.query(`insert into member_migrations (organization_id, id, state) select id, id, 'preparing' from organizations where slug = 'golden-7'`),
  )
  expect(await into('golden-7', [customer])).toEqual([{ line: 1, says: expect.stringMatching(/being prepared/) as string }])
})

test('a repeated import continues after a kill, keeps the written rows and adds nothing twice', async () => {
  const bundle = golden({ seed: 8 })
  const lines = texts(bundle)
  const { organization } = await importBundle(world, { ...bundle, lines: bundle.lines.slice(0, 1) })
  const dying = function* () {
    yield* lines.slice(0, 777)
    throw new Error('killed')
  }
  await expect(importLegacy(world, bundle.slug, dying())).rejects.toThrow('killed')
  const kept = await countOf('customers', organization.id)
  expect(kept).toBe(linesOf(bundle, 'customer').length)
  expect(await countOf('license_keys', organization.id)).toBe(0)
  const { counts, refused } = await importLegacy(world, bundle.slug, lines)
  expect(refused).toEqual([])
  const known = Object.values(counts).reduce((sum, one) => sum + one.known, 0)
  expect(known).toBe(500)
  expect(counts.license_key).toEqual({ added: 150, known: 0 })
  for (const [table, count] of [
    ['seats', 200],
    ['benefit_grants', 600],
    ['license_keys', 150],
    ['customers', kept],
  ] as const)
    expect([table, await countOf(table, organization.id)]).toEqual([table, count])
})

test('the import command imports a file, reports new records, continues after a kill, and names an invalid line in its error', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'))
  const file = join(folder, 'bundle.jsonl')
  const begin = (...more: string[]) => launch(['import', 'legacy', file, '--organization', 'by-command', ...more], world.environmentVariables)
  const run = async (...more: string[]) => {
    const child = begin(...more)
    return { code: await child.exited, output: child.output() }
  }
  try {
    expect(await run()).toEqual({ code: 2, output: expect.stringContaining('cannot be read') as string })

    const { organization } = await importBundle(world, {
      slug: 'by-command',
      lines: [{ type: 'organization', name: 'By command', slug: 'by-command' }],
      files: [],
    })
    const lines = Array.from({ length: 6_000 }, (_, at) => {
      const serial = String(at).padStart(12, '0')
      return JSON.stringify({ type: 'customer', id: `c0000000-0000-4000-8000-${serial}`, email: `person${at}@command.test` })
    })
    writeFileSync(file, `${lines.join('\n')}\n`)
    const killed = begin()
    await eventually('some of it is written', async () => (await countOf('customers', organization.id)) > 0)
    killed.signal('SIGKILL')
    expect(await killed.exited).toBeNull()
    const kept = await countOf('customers', organization.id)
    expect(kept).toBeLessThan(lines.length)
    expect(kept % 500).toBe(0)
    const rest = await run()
    expect([rest.code, rest.output]).toEqual([0, expect.stringMatching(new RegExp(`customer\\s+${lines.length - kept} new\\s+${kept} unchanged`))])
    expect(rest.output).toContain('by-command is imported')
    expect(await countOf('customers', organization.id)).toBe(lines.length)

    writeFileSync(file, `${lines[0]}\n{"type":"customer"}\n`)
    const broken = await run('--json')
    expect([broken.code, JSON.parse(broken.output)]).toMatchObject([1, { organization: 'by-command', counts: {}, refused: [{ line: 2 }] }])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
