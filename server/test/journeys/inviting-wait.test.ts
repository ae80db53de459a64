import type { View } from '@bursar/views'
import { render, script } from '@bursar/web'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, type Browser } from '../harness/browser.ts'
import { frameIn } from '../harness/offers.ts'

// The result of inviting many people, after a limit has stopped it.
let browser: Browser
beforeAll(async () => {
  browser = await openBrowser()
})
afterAll(() => browser.close())

const view = {
  kind: 'purchase',
  id: '0198c2f0-0000-7000-8000-000000000001',
  seller: { name: 'Alder & Finch', slug: 'alder-finch' },
  product: 'Studio plan',
  cover: null,
  paid: 1200,
  currency: 'usd',
  email: 'ada@people.test',
  number: null,
  at_bank: false,
  steps: { payment: 'done', order: 'done', access: 'done' },
  benefits: [],
  entered: true,
  team: { total: 9, free: 7 },
  invited: {
    people: [
      { address: 'one@people.test', result: 'invited', why: null },
      { address: 'two@people.test', result: 'not_asked', why: null },
      { address: 'three@people.test', result: 'not_asked', why: null },
    ],
    halted: 'wait',
    wait_seconds: 40,
  },
  refresh: null,
} as const satisfies View

test('counts the wait after too many invitations down, and then sends the rest', async () => {
  const page = await browser.newPage()
  await page.clock.install()
  const sent: string[] = []
  await page.route('**/*', async (route) => {
    const request = route.request()
    if (request.method() === 'POST') sent.push(new URLSearchParams(request.postData()!).get('addresses')!)
    if (request.url().endsWith('/app.js')) return route.fulfill({ contentType: 'text/javascript', body: script() })
    if (!request.isNavigationRequest() && request.method() === 'GET') return route.abort()
    return route.fulfill({ contentType: 'text/html', body: render(request.method() === 'POST' ? { ...view, invited: null } : view, frameIn('en')) })
  })
  await page.goto('http://pages.test/checkout')
  await page.getByText('The other 2 invitations are sent in 40 seconds. Keep this page open').waitFor()
  await page.clock.runFor(10_000)
  await page.getByText('are sent in 30 seconds').waitFor()
  expect(sent).toEqual([])
  await page.clock.runFor(31_000)
  await expect.poll(() => sent).toEqual(['two@people.test\nthree@people.test'])
  await page.close()
})

test('names the wait in German, and without counting on a page that has no form', () => {
  const shell = {
    seller: { id: 'x', name: 'Alder & Finch', slug: 'alder-finch' },
    reader: { email: 'ada@people.test', name: null, role: 'owner', manages: true },
    has_team: true,
    has_usage: false,
    return_url: null,
    flow: null,
    done: null,
    complaints: [],
  }
  const html = render({ kind: 'portal-invited', shell, invited: view.invited }, frameIn('de'))
  expect(html).toContain('Die übrigen 2 Einladungen folgen in 40 Sekunden. Lassen Sie diese Seite offen')
  expect(html).not.toContain('data-wait')
})
