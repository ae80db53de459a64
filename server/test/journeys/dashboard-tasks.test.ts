import { updateProduct } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openBrowser, type Browser } from '../harness/browser.ts'
import { expectScreen, openDashboards, type Dashboards } from '../harness/dashboards.ts'
import { enter } from '../harness/keyboard.ts'
import { openSink, type Sink } from '../harness/sink.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'
import { accountTasks } from './dashboard-tasks/account.ts'
import { customerTasks } from './dashboard-tasks/customers.ts'
import { productTasks } from './dashboard-tasks/products.ts'
import { saleTasks } from './dashboard-tasks/sales.ts'
import { settingsTasks } from './dashboard-tasks/settings.ts'
import { webhookTasks } from './dashboard-tasks/webhooks.ts'

// Tasks of merchants in the dashboard, done with the keyboard alone in a real browser.
let world: World
let browser: Browser
let sink: Sink
let teams: Teams
let dashboards: Dashboards
let seller: Awaited<ReturnType<Dashboards['seller']>>
beforeAll(async () => {
  sink = await openSink()
  ;[world, browser] = await Promise.all([openWorld({ browser: true, worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openBrowser()])
  teams = await openTeams(world)
  dashboards = openDashboards(world, teams, browser, sink)
  seller = await dashboards.seller({ orders: 12 })
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

describe('tasks by keyboard', () => {
  const tasks = [...productTasks, ...saleTasks, ...customerTasks, ...webhookTasks, ...accountTasks, ...settingsTasks]
  const done: string[] = []
  afterAll(() => console.log(`tasks by keyboard: ${done.length}/${tasks.length}`))

  // Not test.each, because it cuts off long names.
  for (const { name, run } of tasks)
    test(name, async () => {
      const opened = await dashboards.enter(seller)
      // A pointer event would appear in the console as an error.
      await opened.context.addInitScript("addEventListener('pointerdown', () => console.error('a pointer was used'), true)")
      try {
        await run({ ...opened, world, teams, sink, seller })
        expectClean(opened)
        done.push(name)
      } catch (error) {
        if (process.env.BURSAR_TEST_PICTURES)
          await opened.page.screenshot({ path: `${process.env.BURSAR_TEST_PICTURES}/failed-${name.replaceAll(/\W+/g, '-')}.png` })
        throw error
      } finally {
        await opened.close()
      }
    })
})

test('shows the first steps to a new organization, and ticks the step that was done', async () => {
  const shop = await world.shop()
  const opened = await dashboards.enter(shop)
  const { page, go } = opened
  await go()
  await page.getByRole('heading', { name: 'First steps' }).waitFor()
  await page.getByText('1 of 5 done').waitFor()
  await expectScreen(page, 'first-steps')
  for (const path of ['/orders', '/customers', '/products', '/webhooks']) {
    await go(path)
    await page.locator('.state').waitFor()
    await expectScreen(page, `empty${path.replace('/', '-')}`)
  }
  await go('/products/new')
  await enter(page, 'Name', 'First thing')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('heading', { level: 1, name: 'First thing' }).waitFor()
  await go()
  await page.getByText('2 of 5 done').waitFor()
  expectClean(opened)
  await opened.close()
})

test('changes by itself when something happens elsewhere', async () => {
  const opened = await dashboards.enter(seller)
  const { page, go } = opened
  await go(`/products/${seller.product_id}`)
  await page.getByRole('heading', { level: 1, name: 'Workshop' }).waitFor()
  await seller.api.call(updateProduct, { params: { id: seller.product_id }, body: { name: 'Workshop of spring' } })
  await page.getByRole('heading', { level: 1, name: 'Workshop of spring' }).waitFor()
  expectClean(opened)
  await opened.close()
})
