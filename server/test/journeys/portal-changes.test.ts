import { createCustomerSession, createProduct, getSubscription, previewPortalSubscription } from '@bursar/contract'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { expectAccessible, openBrowser, type Browser } from '../harness/browser.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams, type Team, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Changes of a subscription in the portal: cancellation, other plans, fewer seats and their prices.
let world: World
let browser: Browser
let people: Subscribers
let teams: Teams
let portals: Portals
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  people = await openSubscribers(world)
  teams = await openTeams(world, people.deployment)
  portals = openPortals(world, teams, browser)
})
afterAll(async () => {
  await browser.close()
  await people.close()
  await world.close()
})

const fresh = (name: string) => `${name}-${Math.round(performance.now() * 1000)}@people.test`
const now = (team: Team) => team.api.call(getSubscription, { params: { id: team.subscription_id! } })

for (const script of [true, false])
  test(`asks for the reason of a cancellation, and lets the customer keep the subscription, ${script ? 'with' : 'without'} script`, async () => {
    const team = await portals.team({ seats: 3 })
    const { page, go, violations, close } = await portals.enter(team, {}, { script })
    await go('/subscriptions')
    await page.getByText('Cancel subscription', { exact: true }).click()
    await page.getByLabel('It is too expensive').check()
    await page.getByRole('link', { name: 'Keep my subscription' }).click()
    expect((await now(team)).cancel_at_period_end).toBe(false)

    await page.getByText('Cancel subscription', { exact: true }).click()
    await page.getByLabel('Features are missing').check()
    await page.getByLabel('What should Harbour Works know?').fill('  We miss exports. ')
    if (script) await expectAccessible(page)
    await page.getByRole('button', { name: /^Yes, end it on/ }).click()
    await page.getByText('The subscription is canceled').waitFor()
    expect(await now(team)).toMatchObject({
      cancel_at_period_end: true,
      customer_cancellation_reason: 'missing_features',
      customer_cancellation_comment: 'We miss exports.',
    })
    expect(violations).toEqual([])
    await close()
  })

test('offers exactly the plans that the API accepts, and names those that only the number of seats excludes', async () => {
  const team = await portals.team({ seats: 3 })
  const create = async (name: string, prices: readonly object[], more: object = {}) =>
    (await team.api.call(createProduct, { body: { name, recurring_interval: 'month', visibility: 'public', prices, ...more } as never })).id
  const perSeat = (price_per_seat: number, min_seats = 1, max_seats: number | null = null) => ({
    amount_type: 'seat_based',
    price_currency: 'usd',
    seat_tiers: { tiers: [{ min_seats, max_seats, price_per_seat }] },
  })
  const ids = [
    await create('Grand', [perSeat(2500)]),
    await create('Yearly', [perSeat(20_000)], { recurring_interval: 'year' }),
    await create('Small', [perSeat(500, 1, 2)]),
    await create('Huge', [perSeat(300, 10)]),
    await create('Flat', [{ amount_type: 'fixed', price_amount: 900, price_currency: 'usd' }]),
    await create('Gift', [{ amount_type: 'custom', price_currency: 'usd' }]),
    await create('Once', [perSeat(900)], { recurring_interval: null }),
  ]
  const { token } = await team.api.call(createCustomerSession, { body: { customer_id: team.customer_id, member_id: team.owner.id } })
  const portal = world.client({ token })
  const accepted: string[] = []
  for (const product_id of ids)
    if ((await portal.send(previewPortalSubscription, { params: { id: team.subscription_id! }, body: { product_id } })).status === 200)
      accepted.push(product_id)
  expect(accepted).toHaveLength(2)
  const { page, go, close } = await portals.enter(team)
  await go('/subscriptions')
  await page.getByText('Change plan').click()
  const offered = await page.getByLabel('New plan').locator('option').all()
  expect(new Set(await Promise.all(offered.map((one) => one.getAttribute('value'))))).toEqual(new Set(accepted))
  await page.getByText('Small is sold for 1 to 2 seats. To change to it, change the number of seats first.').waitFor()
  await page.getByText('Huge is sold from 10 seats.').waitFor()
  await close()
})

for (const path of ['/team', '/subscriptions', '/subscriptions?flow=seats'])
  for (const script of [true, false])
    test(`lists the seats to take back before their number falls, and takes them back, on ${path} ${script ? 'with' : 'without'} script`, async () => {
      const team = await portals.team({ seats: 4 })
      const [anna, bert, cora] = ['anna', 'bert', 'cora'].map(fresh) as [string, string, string]
      for (const email of [anna, bert, cora]) await teams.claim(await teams.assign(team, { email }))
      const { page, go, violations, close } = await portals.enter(team, {}, { script })
      // A filter of the team page does not shorten the list.
      await go(path === '/team' ? '/team?query=nobody' : path)
      if (path === '/subscriptions') await page.getByText('Change the number of seats').click()
      await page.getByLabel('Number of seats').fill('1')
      if (!script) await page.getByRole('button', { name: 'Show price' }).click()
      const list = page.getByRole('group', { name: 'Choose 2 seats to take back first' })
      await list.waitFor()
      expect(await list.getByRole('checkbox').count()).toBe(3)
      if (script) await expectAccessible(page)
      await list.getByRole('button', { name: 'Take the selected seats back' }).click()
      await page.getByText('Select the seats that you want to take back.').first().waitFor()
      expect((await team.seats()).available_seats).toBe(1)
      await list.getByRole('checkbox', { name: anna }).check()
      await list.getByRole('checkbox', { name: cora }).check()
      await list.getByRole('button', { name: 'Take the selected seats back' }).click()
      await page.getByText('The seats were taken back, and are free.').waitFor()
      expect((await team.seats()).available_seats).toBe(3)
      // The page shows the price of the number that was asked for.
      await page.getByRole('button', { name: 'Change to 1 seat' }).click()
      await page.getByText(path === '/team' ? 'The number of seats was changed.' : 'The subscription was changed.').waitFor()
      expect((await now(team)).seats).toBe(1)
      expect(violations).toEqual([])
      await close()
    })

test('shows a price as the amount now, the next invoice and the new regular price', async () => {
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team)
  const facts = async (): Promise<Record<string, string>> =>
    Object.fromEntries(
      await Promise.all(
        (await page.locator('dl.price > div').all()).map(async (row) => [await row.locator('dt').innerText(), await row.locator('dd').innerText()]),
      ),
    )
  await go('/team')
  await page.getByLabel('Number of seats').fill('5')
  await page.getByRole('button', { name: 'Change to 5 seats' }).waitFor()
  const shown = await facts()
  expect(shown['Now']).toBe('$20.00 for the rest of the period')
  expect(Object.keys(shown)[1]).toMatch(/^Next invoice, /)
  expect(Object.values(shown)[1]).toBe('$50.00')
  expect(shown['New regular price']).toBe('$50.00 a month')
  expect(shown['You have']).toBe('5 seats, at once')

  // If the seller charges changes with the next invoice, that invoice is higher than the regular price.
  await people.query(`update organizations set subscription_settings = subscription_settings || '{"proration_behavior": "prorate"}' where id = $1`, [
    team.organization.id,
  ])
  await page.getByLabel('Number of seats').fill('2')
  await page.getByRole('button', { name: 'Change to 2 seats' }).waitFor()
  const less = await facts()
  expect(less['Now']).toBe('nothing')
  expect(Object.values(less)[1]).toMatch(/^\$\d+\.\d\d, including the change until then$/)
  expect(less['New regular price']).toBe('$20.00 a month')
  await close()
})
