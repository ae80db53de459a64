import { createProduct, getOrder, listCustomerMembers } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectAccessible, openBrowser, type Browser, type Page } from '../harness/browser.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { openSubscribers, type Subscribers } from '../harness/subscribers.ts'
import { openTeams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// The parts that all portal pages share: sections, dates, printing and copying.
let world: World
let browser: Browser
let people: Subscribers
let portals: Portals
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  people = await openSubscribers(world)
  portals = openPortals(world, await openTeams(world, people.deployment), browser)
})
afterAll(async () => {
  await browser.close()
  await people.close()
  await world.close()
})

/** A buyer of one subscription without seats. */
const solo = async () => {
  const shop = await world.shop()
  const { id } = await shop.api.call(createProduct, {
    body: { name: 'Basic', recurring_interval: 'month', prices: [{ amount_type: 'fixed', price_amount: 1200, price_currency: 'usd' }] },
  })
  const anna = await people.subscribe(shop, id)
  const [owner] = (await shop.api.call(listCustomerMembers, { params: { id: anna.customer.id } })).items
  return { ...shop, anna, customer_id: anna.customer.id, owner: owner! }
}
const sections = (page: Page) => page.getByRole('navigation', { name: 'Portal' }).getByRole('link')

test('shows no team section to a buyer without seats, and names the team of a company', async () => {
  const alone = await portals.enter(await solo())
  await alone.go('/overview')
  expect(await sections(alone.page).allInnerTexts()).toEqual(['Overview', 'Subscriptions', 'Orders', 'Billing details', 'Your access', 'Account'])
  await alone.go('/team')
  await alone.page.getByText('You have bought no seats here').waitFor()
  await alone.close()

  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team)
  await go('/billing')
  await page.getByLabel('Name or company').fill('Nordwind GmbH')
  await page.getByRole('button', { name: 'Save' }).click()
  expect(await sections(page).allInnerTexts()).toContain('Team')
  await sections(page).filter({ hasText: 'Team' }).click()
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('Team of Nordwind GmbH')
  expect(await page.title()).toContain('Team of Nordwind GmbH')
  await close()
})

for (const script of [true, false])
  test(`shows the sections in one row on a phone, with the current one visible, ${script ? 'with' : 'without'} script`, async () => {
    const team = await portals.team({ seats: 3 })
    const { page, go, close } = await portals.enter(team, {}, { width: 390, script })
    await go('/account')
    const boxes = await Promise.all((await sections(page).all()).map((link) => link.boundingBox()))
    expect(boxes).toHaveLength(7)
    expect(new Set(boxes.map((box) => Math.round(box!.y))).size).toBe(1)
    const current = (await page.locator('nav [aria-current="page"]').boundingBox())!
    expect(current.x).toBeGreaterThanOrEqual(0)
    expect(current.x + current.width).toBeLessThanOrEqual(390)
    // axe needs the timers of the page, which do not run without script.
    if (script) await expectAccessible(page)
    await close()
  })

test('shows dates in the time zone of the reader and names it, and in UTC without script', async () => {
  const buyer = await solo()
  const read = async (options: Parameters<Portals['enter']>[2]) => {
    const { page, go, close } = await portals.enter(buyer, {}, options)
    await go('/overview')
    const text = await page.locator('main').innerText()
    await close()
    return text
  }
  expect(await read({ timezone: 'America/New_York' })).toMatch(/Next charge on Jun 30, 2026.*Time zone: Eastern Time/s)
  expect(await read({ timezone: 'Europe/Berlin', locale: 'de' })).toMatch(/Nächste Zahlung am 01\.07\.2026.*Zeitzone: Mitteleuropäische Zeit/s)
  expect(await read({ timezone: 'America/New_York', script: false })).toMatch(/Next charge on Jul 1, 2026.*Times in UTC/s)
})

test('shows dates in the time zone of the reader after a part of the page was replaced, and the end of the session with its zone', async () => {
  const team = await portals.team({ seats: 3 })
  await people.query(`update subscriptions set current_period_start = '2026-06-01', current_period_end = '2126-07-01', due_at = '2126-07-01' where id = $1`, [
    team.subscription_id,
  ])
  const { page, go, close } = await portals.enter(team, {}, { timezone: 'America/New_York' })
  await go('/team')
  await page.getByLabel('Number of seats').fill('5')
  await page.getByRole('button', { name: 'Change to 5 seats' }).waitFor()
  expect(await page.locator('dl.price').innerText()).toContain('Next invoice, Jun 30, 2126')
  await go('/account')
  expect(await page.locator('time[data-clock]').innerText()).toMatch(/^\d+:\d\d [AP]M E[DS]T$/)
  await close()
})

test('prints an order black on white, without navigation, controls and addresses of links', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team, {}, { dark: true })
  await go(`/orders/${team.order_id}`)
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
  const shown = (name: string) => page.locator(name).filter({ visible: true }).count()
  for (const hidden of ['nav', 'footer', 'button', '.who', 'select', '.links']) expect([hidden, await shown(hidden)]).toEqual([hidden, 0])
  await page.getByRole('heading', { level: 1 }).waitFor()
  expect(await shown('table.sums tr.total')).toBe(1)
  const style = (await page.evaluate(`(() => {
    const all = [...document.querySelectorAll('body, main *')].filter((one) => one.checkVisibility() && one.tagName !== 'svg')
    return {
      texts: [...new Set(all.map((one) => getComputedStyle(one).color))],
      grounds: [...new Set(all.map((one) => getComputedStyle(one).backgroundColor))],
      after: [...document.querySelectorAll('a')].map((one) => getComputedStyle(one, '::after').content).filter((content) => content !== 'none'),
    }
  })()`)) as Record<string, string[]>
  expect(style.texts).toEqual(['rgb(0, 0, 0)'])
  expect(style.grounds!.toSorted()).toEqual(['rgb(255, 255, 255)', 'rgba(0, 0, 0, 0)'])
  expect(style.after).toEqual([])
  await close()
})

test('copies the invoice number and the order number', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, close } = await portals.enter(team)
  await go(`/orders/${team.order_id}`)
  const { invoice_number } = await team.api.call(getOrder, { params: { id: team.order_id } })
  // Replaces the clipboard, because a headless browser has no reliable one.
  await page.evaluate('navigator.clipboard.writeText = async (text) => void (window.copied = text)')
  for (const [name, value] of [
    ['Copy Invoice number', invoice_number],
    ['Copy Order number', team.order_id],
  ] as const) {
    await page.getByRole('button', { name }).click()
    expect(await page.evaluate('window.copied')).toBe(value)
    expect(await page.locator('[data-copied]').count()).toBe(1)
  }
  await page.getByText('Copied.').waitFor({ state: 'attached' })
  await close()
})
