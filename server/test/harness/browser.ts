import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { accessibilityOf } from './axe.ts'
import { longestWait } from './pace.ts'
import { issuedSecrets, logFile, noteSecrets, searchFor } from './secrets.ts'
import { codeIn, hasCode } from './mail.ts'
import type { World } from './world.ts'

/** Path of the browser. Chromium without a user interface takes about half the CPU time of the whole Chromium. */
export const chromiumPath =
  process.env.BURSAR_TEST_CHROMIUM ?? ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((path) => existsSync(path)) ?? 'chromium-headless-shell'
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Launches Chromium without a window. */
export const openBrowser = (more: readonly string[] = []): Promise<Browser> => chromium.launch({ executablePath: chromiumPath, args: [...flags, ...more] })

/** The addresses that a browser visited, and the documents that it received there. */
interface Trail {
  readonly origin: string
  readonly addresses: string[]
  readonly documents: { readonly url: string; readonly html: string }[]
  readonly reading: Set<Promise<void>>
}
const trails = new WeakMap<BrowserContext, Trail>()

/** Returns every page of ours that a browser has received so far, as sent by the server. */
export const documentsOf = async (context: BrowserContext): Promise<Trail['documents']> => {
  const trail = trails.get(context)!
  await Promise.all(trail.reading)
  return trail.documents
}

export interface ContextOptions {
  readonly width?: number
  readonly dark?: boolean
  readonly script?: boolean
  readonly locale?: string
  /** The time zone of the browser. */
  readonly timezone?: string
  readonly cookie?: string
}

/** Opens a browser context for one person. It has only the given cookies, and records every violation of our content security policy. */
export const openContext = async (
  browser: Browser,
  world: World,
  { width = 1024, dark = false, script = true, locale = 'en', timezone = 'UTC', cookie }: ContextOptions = {},
) => {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    javaScriptEnabled: script,
    locale,
    timezoneId: timezone,
  })
  if (cookie) await context.addCookies([{ name: cookie.split('=')[0]!, value: cookie.slice(cookie.indexOf('=') + 1), url: world.config.public_url.origin }])
  context.setDefaultTimeout(longestWait)
  const violations: string[] = []
  context.on('console', (message) => {
    if (/Content Security Policy|Refused to/i.test(message.text())) violations.push(message.text())
  })
  const trail: Trail = { origin: world.config.public_url.origin, addresses: [], documents: [], reading: new Set() }
  trails.set(context, trail)
  context.on('request', (request) => {
    noteSecrets(request.url())
    const { referer } = request.headers()
    if (referer !== undefined) trail.addresses.push(`referrer ${referer}`)
  })
  context.on('response', (response) => {
    const url = response.url()
    // Ignores redirects, because a redirect removes a secret from the address. Every other response is recorded.
    if (!url.startsWith(trail.origin) || (response.status() >= 300 && response.status() < 400)) return
    // Ignores downloads: the browser does not stay at their address.
    const { 'content-disposition': saved = '', 'content-type': type = '' } = response.headers()
    if (saved.startsWith('attachment')) return
    trail.addresses.push(`address ${url}`)
    if (!response.request().isNavigationRequest() || !type.startsWith('text/html')) return
    const read = response.text().then(
      (html) => void trail.documents.push({ url, html }),
      () => undefined,
    )
    trail.reading.add(read)
    void read.finally(() => trail.reading.delete(read))
  })
  return { context, violations, close: () => context.close() }
}

/** Opens the server of an OAuth app. It records the callbacks with which browsers return. */
export const openCallback = async () => {
  const seen: URL[] = []
  const waiting: ((url: URL) => void)[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://127.0.0.1')
    if (url.pathname === '/moved') {
      response.writeHead(302, { location: `http://${request.headers.host!.replace('localhost', '127.0.0.1')}/callback${url.search}` }).end()
      return
    }
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>App</title><p>Back in the app.</p>')
    if (url.pathname !== '/callback') return
    noteSecrets(url.href)
    const next = waiting.shift()
    if (next) next(url)
    else seen.push(url)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    uri: `http://127.0.0.1:${port}/callback`,
    /** A URL of this server under the host name `localhost`. It redirects to the callback on 127.0.0.1, which is another host for a browser. */
    moved: `http://localhost:${port}/moved`,
    /** Resolves with the next callback of a browser, past or future. */
    next: (): Promise<URL> => {
      const had = seen.shift()
      if (had) return Promise.resolve(had)
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => {
          // Removes this waiting call from the list. Otherwise it would receive a later callback, which would then be lost.
          waiting.splice(waiting.indexOf(take), 1)
          reject(new Error('no browser came back'))
        }, longestWait)
        const take = (url: URL) => {
          clearTimeout(late)
          resolve(url)
        }
        waiting.push(take)
      })
    },
    close: () => new Promise((resolve) => server.close(resolve)),
  }
}

/** Signs in as a person would: enters the e-mail address, reads the mail and enters the code. */
export const signInOn = async (page: Page, world: World, email: string): Promise<void> => {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('button', { name: 'Send me a code' }).click()
  let letter = await world.mail.next(email)
  while (!hasCode(letter)) letter = await world.mail.next(email)
  await page.getByLabel('Code from the mail').fill(codeIn(letter.text))
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/**
 * Asserts that no secret issued by this process has leaked. Checks visited addresses, referrers, every page as sent and
 * as it is now, browser storage and the log. `shownOnPurpose` lists secrets that a page may show.
 */
export const expectNoSecrets = async (page: Page, shownOnPurpose: readonly string[] = []): Promise<void> => {
  const context = page.context()
  for (const { value } of await context.cookies()) noteSecrets(value)
  const secrets = issuedSecrets()
  expect(secrets.length).toBeGreaterThan(0)
  const stored = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])')
  const shown: readonly (readonly [string, string])[] = [
    ...trails.get(context)!.addresses.map((address) => ['an address', address] as const),
    ['the address', page.url()],
    ...(await documentsOf(context)).map(({ url, html }) => [url, html] as const),
    ['the page', await page.content()],
    ['storage', String(stored)],
    ['the log', readFileSync(logFile(), 'utf8')],
  ]
  const allowed = (where: string, secret: string) => where !== 'the log' && shownOnPurpose.includes(secret)
  const search = searchFor(secrets)
  const found = shown.flatMap(([where, text]) =>
    [...search(text)].filter((secret) => !allowed(where, secret)).map((secret) => `${secret.slice(0, 20)}… in ${where.replaceAll(secret, '…')}`),
  )
  expect(found).toEqual([])
}

/** Viewports and colour schemes: light, dark and phone. */
export const looks = { light: { width: 1024, dark: false }, dark: { width: 1024, dark: true }, phone: { width: 390, dark: false } }

/**
 * Checks the current page in every viewport and colour scheme. axe must find no violation, and nothing may overflow
 * horizontally. Saves screenshots if `BURSAR_TEST_PICTURES` is set.
 */
export const expectGoodLooks = async (page: Page, name: string): Promise<void> => {
  const pictures = process.env.BURSAR_TEST_PICTURES
  for (const [look, { width, dark }] of Object.entries(looks)) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
    await expectAccessible(page)
    if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true })
  }
  await page.setViewportSize({ width: 1024, height: 900 })
  await page.emulateMedia({ colorScheme: 'light' })
}

/** Fails if axe finds any violation on the page. */
export const expectAccessible = async (page: Page): Promise<void> => {
  expect(await accessibilityOf(page)).toEqual([])
  // The page does not scroll horizontally.
  expect(await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')).toBeLessThanOrEqual(0)
}

export type { Browser, BrowserContext, Page }
