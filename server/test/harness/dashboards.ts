import { contractKinds, createCustomer, createWebhookEndpoint, type OrganizationRole } from '@bursar/contract'
import { expect } from 'vitest'
import { expectAccessible, openContext, type Browser, type ContextOptions, type Page } from './browser.ts'
import { openPortals } from './portals.ts'
import { openSales } from './sales.ts'
import type { Sink } from './sink.ts'
import type { Teams } from './teams.ts'
import type { World } from './world.ts'

type Shop = Awaited<ReturnType<World['shop']>>

const buyers = ['Ada Sommer', 'Bruno Keller', 'Chiara Romano', 'Dilan Aydin', 'Elif Kaya', 'Finn Larsen', 'Greta Nowak', 'Hugo Meier'] as const
const sums = [1900, 4900, 9900, 12_000, 24_900, 149_000] as const

/** Opens organizations with sales, and signs people in to their dashboard. */
export const openDashboards = (world: World, teams: Teams, browser: Browser, sink: Sink) => {
  const sales = openSales(world)

  /** Opens a seller with a team that has bought seats, and with further customers and orders. */
  const seller = async ({ orders = 12 }: { readonly orders?: number } = {}) => {
    const shop = await world.shop()
    await shop.api.call(createWebhookEndpoint, {
      body: { url: sink.url('/hooks'), name: 'Shop', format: 'raw', events: [...contractKinds] },
    })
    // The second endpoint refuses every event.
    sink.answer('/broken', 500)
    await shop.api.call(createWebhookEndpoint, { body: { url: sink.url('/broken'), name: 'Broken', format: 'raw', events: ['order.paid'] } })
    const team = await openPortals(world, teams, browser).team({ shop, seats: 5, own: true })
    for (const name of ['Mara Lind', 'Noor Haddad']) await teams.assign(team, { email: `${name.split(' ')[0]!.toLowerCase()}@works.test` })
    const customers: string[] = []
    for (const [at, name] of buyers.entries())
      customers.push(
        (await team.api.call(createCustomer, { body: { name, email: `${name.split(' ')[0]!.toLowerCase()}@people.test`, external_id: `crm-${at}` } })).id,
      )
    for (let at = 0; at < orders; at++) {
      const net_amount = sums[at % sums.length]!
      await sales.order(
        { id: customers[at % customers.length]!, organization_id: team.organization.id },
        {
          product_id: team.product_id,
          description: 'Workshop',
          net_amount,
          tax_amount: Math.round(net_amount * 0.19),
          invoice_number: `HW-${String(at + 1).padStart(4, '0')}`,
          ...(at % 5 === 3 ? { status: 'pending' as const } : at % 7 === 6 ? { status: 'refunded' as const } : {}),
        },
      )
    }
    return { ...team, customers, sales }
  }

  /** Signs a person with this role in, in a browser of their own. Records what must never happen. */
  const enter = async (shop: Pick<Shop, 'organization'>, role: OrganizationRole = 'owner', options: ContextOptions = {}) => {
    const person = role === 'owner' ? null : await world.person()
    if (person) await world.join(shop.organization.id, person.id, role)
    const cookie = await world.signIn(person?.id ?? shop.organization.owner)
    const opened = await openContext(browser, world, { ...options, cookie })
    const page: Page = await opened.context.newPage()
    const { origin } = world.config.public_url
    const refused: string[] = []
    const outside: string[] = []
    const broken: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(data|blob):/.test(request.url())) outside.push(request.url())
    })
    page.on('response', (response) => {
      if ([403, 429, 500].includes(response.status())) refused.push(`${response.status()} ${response.url()}`)
    })
    page.on('pageerror', (error) => broken.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') broken.push(message.text())
    })
    const at = (path = '') => `${origin}/dashboard/${shop.organization.slug}${path}`
    return { ...opened, page, refused, outside, broken, at, go: (path = '') => page.goto(at(path)) }
  }

  return { seller, enter }
}
export type Dashboards = ReturnType<typeof openDashboards>

/** The looks in which every screen must be free of findings. */
const looks = [
  ['light', 1280, false],
  ['dark', 1280, true],
  ['phone', 390, false],
] as const

/** Checks the current screen in every look. Saves screenshots if `BURSAR_TEST_PICTURES` is set. */
export const expectScreen = async (page: Page, name: string): Promise<void> => {
  const pictures = process.env.BURSAR_TEST_PICTURES
  for (const [look, width, dark] of looks) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
    // Names the element that is too wide, because the general check gives only the number of pixels.
    const wide = await page.evaluate(
      `document.documentElement.scrollWidth > document.documentElement.clientWidth ? [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, nav, pre')).map((one) => one.outerHTML.slice(0, 120)) : []`,
    )
    expect(wide, name).toEqual([])
    // A button that sends another code is dimmed meanwhile. The button of the form behind a dialog stays busy.
    await page.locator('button.quiet[aria-busy="true"]').first().waitFor({ state: 'detached' })
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/dashboard-${name}-${look}.png`, fullPage: true })
  }
  await page.setViewportSize({ width: 1280, height: 900 })
  await page.emulateMedia({ colorScheme: 'light' })
}
