import { mkdirSync, writeFileSync } from 'node:fs'
import type { Client } from '../contract/src/client.ts'
import {
  createBenefit,
  createCheckout,
  createCustomer,
  createMember,
  createProduct,
  createWebhookEndpoint,
  updateMember,
  updateProductBenefits,
  updateTaxSettings,
} from '../contract/src/index.ts'
import { brand, draw, foxLogo, openPictureHost } from '../server/test/harness/brands.ts'
import { openBrowser, type Page } from '../server/test/harness/browser.ts'
import { openSales } from '../server/test/harness/sales.ts'
import { openPortals } from '../server/test/harness/portals.ts'
import { beginRun, endRun } from '../server/test/harness/runs.ts'
import { openSink } from '../server/test/harness/sink.ts'
import { openTeams } from '../server/test/harness/teams.ts'
import { openWorld } from '../server/test/harness/world.ts'

/** Takes the pictures of the README: the checkout page, the team page of the portal and the dashboard. Writes them to docs/images. */
const folder = 'docs/images'
const width = 1120
const largest = 150_000
const day = 86_400_000

const buyers = ['Atelier Brand', 'Northlight Films', 'Studio Fjell', 'Casa Editorial', 'Hafenkante Design', 'Paper & Pine'] as const

/** Creates orders of the last 30 days: more on working days, and slowly growing. One is unpaid. */
const sellForAMonth = async (organization_id: string, { api, product_id }: { api: Client; product_id: string }) => {
  const sales = openSales(world)
  const customers: string[] = []
  for (const [at, name] of buyers.entries()) customers.push((await api.call(createCustomer, { body: { name, email: `office-${at}@studios.example` } })).id)
  const today = world.clock.wall().getTime()
  for (let back = 29; back >= 0; back--) {
    const at = new Date(today - back * day)
    const isWeekend = at.getUTCDay() % 6 === 0
    for (let one = 0; one < (isWeekend ? 1 : 2 + (back % 3)) + (29 - back) / 10; one++) {
      const net_amount = 1200 * (2 + ((back * 7 + one * 5) % 9))
      await sales.order(
        { id: customers[(back + one) % customers.length]!, organization_id },
        {
          product_id,
          description: 'Studio plan',
          net_amount,
          tax_amount: Math.round(net_amount * 0.19),
          created_at: new Date(at.getTime() - one * 4_000_000 - 600_000),
          status: back === 0 && one === 1 ? 'pending' : 'paid',
        },
      )
    }
  }
}

await beginRun('pictures')
const world = await openWorld({ browser: true, worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
const browser = await openBrowser()
const host = await openPictureHost()
const sink = await openSink()
try {
  mkdirSync(folder, { recursive: true })
  const shop = await world.shop()
  await world.database.owner((owner) =>
    owner.query(`update organizations set customer_portal_settings = customer_portal_settings || $2::jsonb where id = $1`, [
      shop.organization.id,
      JSON.stringify({ subscription: { update_seats: true, update_plan: true, pause: true } }),
    ]),
  )
  host.files.set('/logo.png', { type: 'image/png', bytes: await draw(browser, foxLogo('#2456c9'), 256, 256) })
  await brand(world, shop, host.at('/logo.png'), '#2456c9')
  await shop.api.call(updateTaxSettings, { body: { provider: 'rates', rates: [{ country: 'DE', rate: '19', reverse_charge: false }] } as never })
  const plan = await shop.api.call(createProduct, {
    body: {
      name: 'Studio plan',
      description: 'Shared libraries, version history and unlimited exports for your design team.',
      recurring_interval: 'month',
      prices: [
        {
          amount_type: 'seat_based',
          price_currency: 'usd',
          seat_tiers: {
            seat_tier_type: 'graduated',
            tiers: [
              { min_seats: 1, max_seats: 10, price_per_seat: 1200 },
              { min_seats: 11, max_seats: null, price_per_seat: 900 },
            ],
          },
        },
      ],
    } as never,
  })
  const benefits = await Promise.all(
    ['Desktop app for macOS and Windows', 'Priority support by e-mail'].map((description) =>
      shop.api.call(createBenefit, { body: { type: 'custom', description, properties: { note: null } } as never }),
    ),
  )
  await shop.api.call(updateProductBenefits, { params: { id: plan.id }, body: { benefits: benefits.map(({ id }) => id) } })

  const picture = async (page: Page, name: string, height: number) => {
    const path = `${folder}/${name}.png`
    await page.setViewportSize({ width, height })
    const image = await page.screenshot()
    if (image.length > largest) throw new Error(`${path} has ${image.length} bytes, at most ${largest} are allowed`)
    writeFileSync(path, image)
    console.log(`${path}: ${image.length} bytes`)
  }

  const checkout = await shop.api.call(createCheckout, {
    body: {
      products: [plan.id],
      seats: 5,
      customer_email: 'ines.moreau@lighthouse.example',
      customer_name: 'Ines Moreau',
      customer_billing_address: { country: 'DE' },
    } as never,
  })
  const buyer = await browser.newContext({ locale: 'en' })
  const page = await buyer.newPage()
  await page.goto(checkout.url)
  await picture(page, 'checkout', 900)

  await shop.api.call(createWebhookEndpoint, { body: { url: sink.url('/hooks'), name: 'Shop', format: 'raw', events: ['order.paid'] } })
  const teams = await openTeams(world)
  const customer = await shop.api.call(createCustomer, { body: { email: 'ines.moreau@lighthouse.example', name: 'Lighthouse Studio' } })
  const team = await teams.buy({ shop, product_id: plan.id, customer_id: customer.id, seats: 6 })
  await shop.api.call(updateMember, { params: { id: customer.id, member_id: team.owner.id }, body: { name: 'Ines Moreau' } })
  const people: readonly (readonly [string, string, 'billing_manager' | 'member', boolean])[] = [
    ['Jonas Weber', 'jonas.weber', 'billing_manager', true],
    ['Amara Okafor', 'amara.okafor', 'member', true],
    ['Hanna Lind', 'hanna.lind', 'member', false],
  ]
  for (const [name, mailbox, role, isActive] of people) {
    const email = `${mailbox}@lighthouse.example`
    const member = await shop.api.call(createMember, { params: { id: customer.id }, body: { email, name, role } })
    const seat = await teams.assign(team, { member_id: member.id })
    if (isActive) await teams.claim(seat)
  }
  const { page: portal, go, close } = await openPortals(world, teams, browser).enter(team, {}, { width })
  await go('/team')
  await portal.getByLabel('E-mail addresses').fill('Priya Nair <priya.nair@lighthouse.example>, tom.becker@lighthouse.example')
  await portal.getByLabel('Number of seats').fill('8')
  await portal.getByRole('button', { name: 'Change to 8 seats' }).waitFor()
  await picture(portal, 'portal-team', 1294)
  await close()
  await buyer.close()

  // The first steps are done when an event was delivered.
  await sink.until('/hooks', 1)
  await world.database.owner((owner) => owner.query(`update users set email = 'sam@alder-finch.example' where id = $1`, [shop.organization.owner]))
  await sellForAMonth(shop.organization.id, team)
  const seller = await browser.newContext({ locale: 'en', timezoneId: 'UTC' })
  const cookie = await world.signIn(shop.organization.owner)
  const { origin } = world.config.public_url
  await seller.addCookies([{ name: cookie.split('=')[0]!, value: cookie.slice(cookie.indexOf('=') + 1), url: origin }])
  const dashboard = await seller.newPage()
  await dashboard.setViewportSize({ width, height: 860 })
  await dashboard.goto(`${origin}/dashboard/${shop.organization.slug}`)
  await dashboard.locator('.chart .line').first().waitFor()
  await dashboard.locator('.rows .money').first().waitFor()
  await picture(dashboard, 'dashboard', 860)
  await seller.close()
} finally {
  await browser.close()
  await host.close()
  sink.close()
  await world.close()
  await endRun()
}
