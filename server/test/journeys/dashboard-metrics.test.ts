import { readFileSync, writeFileSync } from 'node:fs'
import { createMetricDashboard, everyMetric, getMetrics, listMetricDashboards, listMetricFacts, metricSlugs, type MetricSlug } from '@bursar/contract'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, type Browser, type Page } from '../harness/browser.ts'
import { expectScreen, openDashboards, type Dashboards } from '../harness/dashboards.ts'
import { jump } from '../harness/keyboard.ts'
import { openMetricHistory, seededNumbers } from '../harness/metric-history.ts'
import { openSink, type Sink } from '../harness/sink.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// The screens of metrics, with a seeded history and a real browser.
let world: World
let browser: Browser
let sink: Sink
let teams: Teams
let dashboards: Dashboards
let shop: Awaited<ReturnType<World['shop']>>
beforeAll(async () => {
  sink = await openSink()
  ;[world, browser] = await Promise.all([openWorld({ browser: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openBrowser()])
  teams = await openTeams(world)
  dashboards = openDashboards(world, teams, browser, sink)
  shop = await world.shop()
  const query = <T extends object>(text: string, values: readonly unknown[] = []) =>
    world.database.owner(async (owner) => (await owner.query<T>(text, [...values])).rows)
  const history = await openMetricHistory(query, shop.organization.id, seededNumbers(24))
  await history.run(new Date('2024-06-01T00:00:00Z'), new Date('2026-03-01T00:00:00Z'), 400)
})
afterAll(async () => {
  await browser.close()
  await teams.close()
  await world.close()
  sink.close()
})

type Entered = Awaited<ReturnType<Dashboards['enter']>>
const expectClean = ({ violations, refused, outside, broken }: Entered) =>
  expect({ violations, refused, outside, broken }).toEqual({ violations: [], refused: [], outside: [], broken: [] })

const year = { start_date: '2025-02-01', end_date: '2026-01-31', interval: 'month', timezone: 'Asia/Kathmandu' } as const
const yearBefore = { ...year, start_date: '2024-02-01', end_date: '2025-01-31' } as const
const ofYear = `from=${year.start_date}&to=${year.end_date}&interval=month&zone=${encodeURIComponent(year.timezone)}`

/** The number that a reader sees for a value of a metric, with the digits that are shown. */
const shownFor = (slug: MetricSlug, value: number): number => {
  const { type } = metricSlugs[slug]
  const [scale, digits] = { scalar: [1, 2], percentage: [100, 1], currency: [0.01, 2], currency_sub_cent: [0.01, 6] }[type] as [number, number]
  return Number((value * scale).toFixed(digits))
}
const numberIn = (text: string): number => Number(text.replaceAll(/[^\d.-]/g, ''))

const textsOf = (page: Page, selector: string) => page.locator(selector).allInnerTexts()
const valuesOf = (page: Page, selector: string): Promise<string[]> =>
  page.locator(selector).evaluateAll((found: readonly Element[]) => found.map((one) => (one as unknown as { value: string }).value))

test('shows for every metric exactly the values of the API, and those of the year before', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  const [now, before] = await Promise.all([year, yearBefore].map((range) => shop.api.call(getMetrics, { query: range })))
  let other_than_zero = 0
  for (let at = 0; at < everyMetric.length; at += 10) {
    const slugs = everyMetric.slice(at, at + 10)
    const { id } = await shop.api.call(createMetricDashboard, { body: { name: `Part ${at / 10 + 1}`, metrics: slugs } })
    await go(`/metrics?dashboard=${id}&${ofYear}&${slugs.map((slug) => `table=${slug}`).join('&')}`)
    await page
      .locator('.metric-grid .panel')
      .nth(slugs.length - 1)
      .waitFor()
    // The year before arrives in a request of its own.
    await page.locator('.metric-grid .panel').first().locator('td.soft').first().waitFor()
    for (const slug of slugs) {
      const panel = `.metric-grid .panel:has(h2:text-is(${JSON.stringify(metricSlugs[slug].display_name)}))`
      const wanted = now!.periods.map((period) => period[slug]!)
      const cells = await textsOf(page, `${panel} tbody data`)
      expect((await valuesOf(page, `${panel} tbody data`)).map(Number), slug).toEqual(wanted)
      expect(cells.map(numberIn), slug).toEqual(wanted.map((value) => shownFor(slug, value)))
      expect((await textsOf(page, `${panel} tbody td.soft`)).map(numberIn), slug).toEqual(before!.periods.map((period) => shownFor(slug, period[slug]!)))
      expect((await valuesOf(page, `${panel} .metric-total data`)).map(Number), slug).toEqual([now!.totals[slug]])
      other_than_zero += wanted.filter((value) => value !== 0).length
    }
  }
  expect(other_than_zero).toBeGreaterThan(300)
  expectClean(opened)
  await opened.close()
})

test('leads from a value to its records by keyboard, and the records sum to it', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  await go(`/metrics/net_revenue?${ofYear}`)
  await page.locator('.chart svg').first().waitFor()
  await page.getByRole('group', { name: /^Net Revenue: / }).focus()
  for (let at = 0; at < 3; at++) await page.keyboard.press('ArrowRight')
  const { periods } = await shop.api.call(getMetrics, { query: { ...year, metrics: ['net_revenue'] } })
  const { timestamp, net_revenue } = periods[2]!
  const tip = page.locator('.chart .tip')
  await expect.poll(() => tip.innerText()).toContain('April 2025')
  expect(numberIn((await tip.innerText()).split('Period before')[0]!.replace('April 2025', ''))).toBe(shownFor('net_revenue', net_revenue!))
  await page.keyboard.press('Enter')
  const sum = page.getByText(/records? adds? up to/)
  await sum.waitFor()
  const facts = await shop.api.call(listMetricFacts, {
    params: { slug: 'net_revenue' },
    query: { ...year, timestamp, limit: 100 },
  })
  expect(facts.value).toBe(net_revenue)
  expect(numberIn((await sum.innerText()).split('up to')[1]!.replace(/\.$/, ''))).toBe(shownFor('net_revenue', facts.value))
  const rows: number[] = []
  for (;;) {
    rows.push(...(await valuesOf(page, '.panel tbody data')).map(Number))
    const next = page.getByRole('button', { name: 'Next' })
    if ((await next.count()) === 0 || (await next.isDisabled())) break
    const address = page.url()
    await next.click()
    await expect.poll(() => page.url()).not.toBe(address)
    await page.locator('.panel [aria-busy=false] tbody').first().waitFor()
  }
  expect(rows).toHaveLength(facts.pagination.total_count)
  expect(rows.reduce((total, value) => total + value, 0)).toBe(facts.value)
  // The address alone leads to the same records.
  await page.goto(page.url())
  await sum.waitFor()
  expectClean(opened)
  await opened.close()
})

test('names the zone and the time of the data, takes old names of zones, and compares equal periods', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  const status = page.locator('.filters > p[role=status]')
  await go('/metrics?zone=Asia/Calcutta&range=12w')
  await page.locator('.metric-grid .panel').first().waitFor()
  await expect.poll(() => status.innerText()).toMatch(/^Data through .*GMT\+5:30 · Time zone: Asia\/Calcutta · Period before: /)
  const periodOf = async (address: string) => {
    await go(`/metrics?${address}`)
    await page.locator('.metric-grid .panel').first().waitFor()
    return (await status.innerText()).split('Period before: ')[1]?.split(' · ')[0]
  }
  expect(await periodOf('from=2025-03-01&to=2025-03-10&zone=UTC')).toBe('Feb 19, 2025 – Feb 28, 2025')
  expect(await periodOf('from=2025-03-03&to=2025-03-19&interval=week&zone=UTC')).toBe('Feb 10, 2025 – Feb 26, 2025')
  expect(await periodOf('from=2024-03-01&to=2025-02-28&interval=month&zone=UTC')).toBe('Mar 1, 2023 – Feb 29, 2024')
  expect(await periodOf('from=2025-01-01&to=2026-03-15&interval=year&zone=UTC')).toBe('Jan 1, 2023 – Mar 15, 2024')
  // Nothing is known before 2023.
  expect(await periodOf('from=2023-01-05&to=2023-01-20&zone=UTC')).toBeUndefined()
  expect(await status.innerText()).toContain('There are no data before this range to compare with.')
  // The reader types a zone, and a name that does not exist is refused beside its field.
  await page.locator('summary', { hasText: 'UTC' }).click()
  const zone = page.getByRole('combobox', { name: 'Time zone' })
  await zone.fill('Mars/Olympus')
  await page.keyboard.press('Enter')
  await page.getByText('This browser knows no time zone of that name.').waitFor()
  await zone.fill('Pacific/Chatham')
  await page.keyboard.press('Enter')
  await expect.poll(() => new URL(page.url()).searchParams.get('zone')).toBe('Pacific/Chatham')
  await expect.poll(() => status.innerText()).toContain('Time zone: Pacific/Chatham')
  expectClean(opened)
  await opened.close()
})

test('saves the values that it shows as CSV', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  await go(`/metrics/revenue?${ofYear}`)
  await page.locator('.chart svg').first().waitFor()
  const saved = page.waitForEvent('download')
  await page.getByRole('button', { name: 'CSV' }).click()
  const rows = parse<Record<string, string>>(readFileSync(await (await saved).path(), 'utf8'), { columns: true, bom: true })
  const { periods } = await shop.api.call(getMetrics, { query: { ...year, metrics: ['revenue'] } })
  expect(rows.map((row) => [row.Timestamp, Number(row.Revenue)])).toEqual(periods.map(({ timestamp, revenue }) => [timestamp, revenue]))
  expectClean(opened)
  await opened.close()
})

test('saves a chart as PNG', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  await go(`/metrics/revenue?${ofYear}`)
  await page.locator('.chart svg').first().waitFor()
  const saved = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save Revenue as PNG' }).click()
  const file = await saved
  expect(file.suggestedFilename()).toBe(`revenue-${year.start_date}-${year.end_date}.png`)
  const bytes = readFileSync(await file.path())
  expect(bytes.subarray(1, 4).toString('latin1')).toBe('PNG')
  // Twice the size of the wide drawing, and the two lines above it.
  expect([bytes.readUInt32BE(16), bytes.readUInt32BE(20)]).toEqual([1920, 572])
  if (process.env.BURSAR_TEST_PICTURES) writeFileSync(`${process.env.BURSAR_TEST_PICTURES}/chart.png`, bytes)
  expectClean(opened)
  await opened.close()
})

test('shows the last month beside the whole month before it', async () => {
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  await go('/metrics/monthly_recurring_revenue')
  await page.locator('.chart svg').first().waitFor()
  await page.getByLabel('Range').selectOption({ label: 'Last month' })
  await expect.poll(() => new URL(page.url()).searchParams.get('range')).toBe('last-month')
  const [year, month] = [world.clock.wall().getUTCFullYear(), world.clock.wall().getUTCMonth()]
  const dayOf = (at: number) => new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeZone: 'UTC' }).format(at)
  const [before, first, last] = [Date.UTC(year, month - 2, 1), Date.UTC(year, month - 1, 1), Date.UTC(year, month, 0)]
  await page
    .getByText(`${dayOf(first)} – ${dayOf(last)}`)
    .first()
    .waitFor()
  await page.getByText(`Period before: ${dayOf(before)} – ${dayOf(first - 86_400_000)}`).waitFor()
  expectClean(opened)
  await opened.close()
})

test('creates, changes and deletes a dashboard of the organization', async () => {
  const own = await world.shop()
  const opened = await dashboards.enter(own)
  const { page, go } = opened
  await go()
  await page.getByRole('heading', { level: 1, name: 'Home' }).waitFor()
  await jump(page, 'm', 'Metrics')
  await page.getByRole('button', { name: 'New dashboard' }).click()
  const dialog = page.getByRole('dialog', { name: 'New dashboard' })
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Board of Monday')
  while ((await dialog.getByRole('checkbox', { checked: true }).count()) > 0) await dialog.getByRole('checkbox', { checked: true }).first().uncheck()
  await dialog.getByRole('checkbox', { name: 'Lifetime Value' }).check()
  await dialog.getByRole('checkbox', { name: 'Costs', exact: true }).check()
  await expectScreen(page, 'metrics-edit')
  await page.keyboard.press('Control+Enter')
  await page.getByText('The dashboard was saved.').waitFor()
  await expect.poll(() => page.locator('.metric-grid h2').allInnerTexts()).toEqual(['Lifetime Value', 'Costs'])
  const [board] = await own.api.call(listMetricDashboards, { query: {} })
  expect([board!.name, board!.metrics]).toEqual(['Board of Monday', ['ltv', 'costs']])
  expect(new URL(page.url()).searchParams.get('dashboard')).toBe(board!.id)
  // Finance reads it, and has no buttons that the server would refuse.
  const finance = await dashboards.enter(own, 'finance')
  await finance.go(`/metrics?dashboard=${board!.id}`)
  await finance.page.getByRole('heading', { name: 'Lifetime Value' }).waitFor()
  expect(await finance.page.getByRole('button', { name: /^(New dashboard|Change|Delete)$/ }).count()).toBe(0)
  expectClean(finance)
  await finance.close()
  await page.getByRole('button', { name: 'Change' }).click()
  await page.getByRole('dialog', { name: 'Change' }).getByRole('checkbox', { name: 'Lifetime Value' }).uncheck()
  await page.keyboard.press('Control+Enter')
  await expect.poll(() => page.locator('.metric-grid h2').allInnerTexts()).toEqual(['Costs'])
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
  await page.getByText('The dashboard was deleted.').waitFor()
  expect(await own.api.call(listMetricDashboards, { query: {} })).toEqual([])
  await go(`/metrics?dashboard=${board!.id}`)
  await page.getByText('This dashboard was deleted.').waitFor()
  await expectScreen(page, 'metrics-deleted')
  await go('/metrics/no_such_metric')
  await page.getByText('There is no metric of this name.').waitFor()
  expectClean(opened)
  await opened.close()
})

test.each(['en', 'de'] as const)('is free of findings in every look and state in %s, and a reload shows the same', async (locale) => {
  const opened = await dashboards.enter(shop, 'member', { locale, width: 1280 })
  const { page, go } = opened
  const days = 'from=2025-04-01&to=2025-05-10&zone=Europe/Berlin'
  const bucket = encodeURIComponent('2025-04-30T22:00:00Z')
  const month = `from=2025-02-01&to=2026-01-31&interval=month&zone=Europe/Berlin`
  for (const [name, path, ready] of [
    ['metrics', `/metrics?${days}`, '.metric-grid .chart svg'],
    ['metrics-tables', `/metrics?${month}&table=revenue&table=checkouts_conversion`, '.metric-table tbody td.soft'],
    ['metrics-all', `/metrics?dashboard=all&${month}`, '.metric-list tbody tr:nth-child(55)'],
    ['metric', `/metrics/monthly_recurring_revenue?${days}`, '.chart .line.before[d^=M]'],
    ['metric-records', `/metrics/net_revenue?${month}&bucket=${bucket}`, '.panel tbody data'],
    ['metric-table', `/metrics/active_subscriptions?${month}&table=active_subscriptions&bucket=${bucket}`, '.panel:nth-child(2) tbody data'],
    ['metric-derived', `/metrics/churn_rate?${month}&compare=off`, '.rows a'],
    ['metrics-nothing', '/metrics?from=2023-02-01&to=2023-02-20', '.metric-grid .chart svg'],
    ['metrics-one-value', '/metrics/revenue?from=2025-05-01&to=2025-05-01&interval=day&zone=UTC', '.panel tbody data'],
  ] as const) {
    await go(path)
    const loaded = page.locator(`#app ${ready}`).first()
    await loaded.waitFor({ state: 'attached' })
    await page.locator('#app [aria-busy=true]').waitFor({ state: 'detached' })
    await expectScreen(page, `${name}-${locale}`)
    const seen = async () => [await page.locator('h1').innerText(), page.url(), await page.locator('#app data').allInnerTexts()]
    const shown = await seen()
    await page.reload()
    await loaded.waitFor({ state: 'attached' })
    await expect.poll(seen).toEqual(shown)
    expectClean(opened)
  }
  await opened.close()
})
