import { mkdirSync } from 'node:fs'
import { runInThisContext } from 'node:vm'
import { operations } from '@bursar/contract'
import { createPolar } from 'polar-sdk/2026-04'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { officialMethods } from '../../src/pages/account/official-client.ts'
import { openReference } from '../../src/pages/account/reference.ts'
import { current, uncallable } from '../conformance/clients.ts'
import { expectAccessible, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { exchange, openWorld, type World } from '../harness/world.ts'

// The reference of the API at /docs, over HTTP and in a real browser.
let world: World
let browser: Browser
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

const pictures = process.env.BURSAR_TEST_PICTURES
if (pictures) mkdirSync(pictures, { recursive: true })

const read = async (path: string): Promise<string> => {
  const { status, text } = await exchange(world.port, 'GET', path, { accept: 'text/html' })
  expect(status, path).toBe(200)
  return text
}

test('lists every operation, and each link leads to the section of its operation', async () => {
  const index = await read('/docs')
  const links = [...index.matchAll(/href="\/docs\/([\w-]+)#([\w-]+)"/g)].map(([, area, anchor]) => ({ area: area!, anchor: anchor! }))
  expect(links.map(({ anchor }) => anchor).toSorted()).toEqual(operations.map(({ id }) => id.replaceAll(':', '-')).toSorted())
  for (const [area, found] of Map.groupBy(links, (link) => link.area)) {
    const page = await read(`/docs/${area}`)
    expect(Buffer.byteLength(page), area).toBeLessThan(1_500_000)
    for (const { anchor } of found) {
      expect(page, anchor).toContain(`id="${anchor}"`)
      expect(page.split(`id="${anchor}"`)[1], anchor).toContain('curl ')
    }
  }
})

/** Runs an example of the reference, and returns the requests that it sends. Its import becomes a parameter. */
const sentBy = async (example: string): Promise<{ method: string; url: string; body: unknown }[]> => {
  const sent: { method: string; url: string; body: unknown }[] = []
  vi.stubGlobal('fetch', (target: string | URL | Request, init: RequestInit = {}) => {
    const { method = 'GET', url } = target instanceof Request ? target : { method: init.method, url: String(target) }
    sent.push({ method, url: decodeURIComponent(url), body: typeof init.body === 'string' ? (JSON.parse(init.body) as unknown) : undefined })
    return Promise.resolve(Response.json({}))
  })
  const script = example.replace(/^import .*$/m, '').replaceAll('process.env.TOKEN!', 'process.env.TOKEN')
  await runInThisContext(`(async (createPolar, fetch, process) => {${script}\n})`)(createPolar, globalThis.fetch, { env: { TOKEN: 'x' } })
  vi.unstubAllGlobals()
  return sent
}

test('the examples in TypeScript send the same request as those for curl', async () => {
  const reference = openReference('http://localhost:4100')
  const described = await Promise.all((await reference.areas()).map(async ({ slug }) => (await reference.area(slug))!.operations))
  let compared = 0
  for (const { id, method, curl, typescript } of described.flat()) {
    if (typescript === null) continue
    const address = new URL(decodeURIComponent(/'(http[^']*)'/.exec(curl)![1]!))
    const [request, ...others] = await sentBy(typescript)
    const url = new URL(request!.url)
    expect([id, others, request!.method, url.pathname.replace(/\/$/, '')]).toEqual([id, [], method, address.pathname.replace(/\/$/, '')])
    for (const [name, value] of address.searchParams) expect([id, name, url.searchParams.getAll(name)]).toEqual([id, name, expect.arrayContaining([value])])
    const body = /-d '([^]*)'$/.exec(curl)?.[1]
    expect([id, request!.body]).toEqual([id, body === undefined ? undefined : JSON.parse(body.replaceAll(String.raw`'\''`, "'"))])
    compared++
  }
  expect(compared).toBeGreaterThan(200)
})

test('the examples use the official client for every operation that it has a method for', () => {
  const plain = (path: string) => path.replaceAll(/\{[^{}]*\}/g, '{}').replace(/\/$/, '')
  const found: [string, string][] = []
  const visit = (part: object, names: readonly string[]): void => {
    for (const [name, one] of Object.entries(part) as [string, unknown][])
      if (typeof one === 'object' && one !== null) visit(one, [...names, name])
      else {
        const [, method, path] = /buildRequest\("(\w+)", "([^"]+)"/.exec(String(one)) ?? []
        const operation = operations.find((candidate) => candidate.method === method && plain(candidate.path) === plain(path!))
        if (operation && !(`${method} ${plain(path!)}` in uncallable.current)) found.push([operation.id, [...names, name].join('.')])
      }
  }
  visit(current('http://127.0.0.1:1', 'none'), [])
  expect(Object.fromEntries(found)).toEqual(officialMethods)
})

test('filters operations by the words of a query', async () => {
  const found = await read('/docs?q=preview+refund')
  expect(found).toContain('/docs/refunds#refunds-preview')
  expect(found).not.toContain('#products-list')
  const harmless = await read('/docs?q=%22%3E%3Cscript%3E')
  expect(harmless).not.toContain('<script')
})

test('answers an unknown area with 404', async () => {
  const { status } = await exchange(world.port, 'GET', '/docs/nothing', { accept: 'text/html' })
  expect(status).toBe(404)
})

test('is accessible and fits a phone, in both themes and languages, without script', async () => {
  const { origin } = world.config.public_url
  for (const { width, dark, locale } of [
    { width: 1280, dark: false, locale: 'en' },
    { width: 1280, dark: true, locale: 'en' },
    { width: 390, dark: false, locale: 'de' },
    { width: 390, dark: true, locale: 'en' },
  ]) {
    const { context, violations, close } = await openContext(browser, world, { width, dark, locale })
    const page = await context.newPage()
    for (const path of ['/docs', '/docs/refunds']) {
      await page.goto(`${origin}${path}`)
      await expectAccessible(page)
      expect(await page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth'), `${path} at ${width}`).toBe(true)
      expect(await page.locator('script').count()).toBe(0)
      if (pictures) await page.screenshot({ path: `${pictures}/reference${path.replaceAll('/', '-')}-${width}-${dark ? 'dark' : 'light'}.png` })
    }
    expect(violations).toEqual([])
    await close()
  }
})
