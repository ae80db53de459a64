import { afterAll, beforeAll, expect, test } from 'vitest'
import { listOrders } from '@bursar/contract'
import { openBrowser, type Browser } from '../../harness/browser.ts'
import { openDashboards, type Dashboards } from '../../harness/dashboards.ts'
import { fairStopwatch } from '../../harness/fair.ts'
import { openSink, type Sink } from '../../harness/sink.ts'
import { openTeams, type Teams } from '../../harness/teams.ts'
import { openWorld, type World } from '../../harness/world.ts'
import { gather, shareOfBig, type Crowd } from './bulk-data.ts'
import { withoutIntervals } from './statements.ts'

// The orders screen of a large seller: the next page appears at once, in each order that the screen offers, and filtered.

/** Orders of the seller. `BURSAR_TEST_ROWS=1000000` for the long run. */
const rows = Number(process.env.BURSAR_TEST_ROWS ?? 20_000)
/** Pages that are opened in each order of the list. */
const pages = 20
/** The longest median time from the click to the rows of the next page, in milliseconds. Single pages take longer on a busy machine. */
const longest = 300
const long = 3_600_000

/** Tables that the list of orders reads, and those that they refer to. */
const tables = new Set(['products', 'product_prices', 'discounts', 'customers', 'members', 'subscriptions', 'orders', 'order_items'])

let world: World
let browser: Browser
let sink: Sink
let teams: Teams
let dashboards: Dashboards
let crowd: Crowd
beforeAll(async () => {
  sink = await openSink()
  ;[world, browser] = await Promise.all([withoutIntervals(() => openWorld({ browser: true })), openBrowser()])
  teams = await openTeams(world)
  dashboards = openDashboards(world, teams, browser, sink)
  crowd = await gather(world, Math.ceil(rows / shareOfBig), tables)
}, long)
afterAll(async () => {
  await browser?.close()
  await teams?.close()
  await world?.close()
  sink?.close()
})

const percentile = (values: readonly number[], share: number) => values.toSorted((one, other) => one - other)[Math.ceil(values.length * share) - 1]!

/** A script for the browser that presses the button for the next page, and ends when its rows are painted. */
const nextPage = (range: string) => `new Promise((resolve) => {
  const pages = document.querySelector('.pages')
  const look = () => requestAnimationFrame(pages.textContent.startsWith('${range}') ? resolve : look)
  pages.querySelector('button:last-of-type').click()
  look()
})`

test('shows the next page of orders within 300 ms, in each order of the list and with filters', { timeout: long }, async () => {
  const api = world.client({ token: (await crowd.organizations.big.token()).secret })
  const { items: early, pagination } = await api.call(listOrders, { query: { sorting: ['created_at'], limit: 1, page: Math.ceil(rows / 4) } })
  // Three of four orders are younger than this day.
  const from = new Date(Date.parse(early[0]!.created_at) + 86_400_000).toISOString().slice(0, 10)
  const { page, go, close, refused, broken } = await dashboards.enter({ organization: crowd.organizations.big })
  const times: number[] = []
  const medians: number[] = []
  const answers: number[] = []
  page.on('requestfinished', (request) => {
    if (new URL(request.url()).pathname === listOrders.path) answers.push(request.timing().responseEnd)
  })
  for (const [name, search] of [
    ['newest first', ''],
    ['oldest first', '?sort=created_at'],
    ['by amount', '?sort=-amount'],
    ['smallest first', '?sort=amount'],
    ['from a day on', `?from=${from}`],
    ['from a day on, by amount', `?from=${from}&sort=-amount`],
  ] as const) {
    await go(`/orders${search}`)
    await page.locator('tbody tr').nth(49).waitFor()
    const own: number[] = []
    for (let at = 1; at <= pages; at++) {
      const elapsed = fairStopwatch()
      await page.evaluate(nextPage(`${(at * 50 + 1).toLocaleString('en')}–${(at * 50 + 50).toLocaleString('en')} of `))
      own.push(elapsed())
    }
    times.push(...own)
    medians.push(percentile(own, 0.5))
    console.log(`next page, ${name}: median ${percentile(own, 0.5).toFixed(0)} ms, 95 % within ${percentile(own, 0.95).toFixed(0)} ms`)
  }
  console.log(
    `next page of ${pagination.total_count} orders, ${times.length} pages: median ${percentile(times, 0.5).toFixed(0)} ms, 95 % within ${percentile(times, 0.95).toFixed(0)} ms; answer of the API: 95 % within ${percentile(answers, 0.95).toFixed(0)} ms`,
  )
  expect(pagination.total_count).toBeGreaterThanOrEqual(rows)
  expect(Math.max(...medians)).toBeLessThanOrEqual(longest)
  expect({ refused, broken }).toEqual({ refused: [], broken: [] })
  await close()
})
