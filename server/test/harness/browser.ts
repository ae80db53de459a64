import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { issuedSecrets, logFile, noteSecrets, searchFor } from './secrets.ts'
import { codeIn } from './mail.ts'
import type { World } from './world.ts'

/** The system's own browser. */
export const chromiumPath = process.env.BURSAR_TEST_CHROMIUM ?? '/usr/bin/chromium'
export const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** It, without a window. */
export const openBrowser = (more: readonly string[] = []): Promise<Browser> => chromium.launch({ executablePath: chromiumPath, args: [...flags, ...more] })

/** Where a browser has been, and what it was shown there. */
interface Trail {
  readonly origin: string
  readonly addresses: string[]
  readonly documents: { readonly url: string; readonly html: string }[]
  readonly reading: Set<Promise<void>>
}
const trails = new WeakMap<BrowserContext, Trail>()

/** Every page of ours that a browser was shown so far, as it came. */
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
  readonly cookie?: string
}

/** A browser of one person: no cookies but those given, and every violation of our content policy written down. */
export const openContext = async (
  browser: Browser,
  world: World,
  { width = 1024, dark = false, script = true, locale = 'en', cookie }: ContextOptions = {},
) => {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: dark ? 'dark' : 'light',
    javaScriptEnabled: script,
    locale,
  })
  if (cookie) await context.addCookies([{ name: cookie.split('=')[0]!, value: cookie.slice(cookie.indexOf('=') + 1), url: world.config.public_url.origin }])
  context.setDefaultTimeout(180_000)
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
    // What sends on is where a secret leaves the address; whatever stays is looked at.
    if (!url.startsWith(trail.origin) || (response.status() >= 300 && response.status() < 400)) return
    // What is saved as a file is no place where a browser stays.
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

/** An app's own server, where browsers come back to: it remembers with what. */
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
    /** The same server under another name, which leads to the first. */
    moved: `http://localhost:${port}/moved`,
    /** The next return of a browser, now or when it comes. */
    next: (): Promise<URL> => {
      const had = seen.shift()
      if (had) return Promise.resolve(had)
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => {
          // Whoever comes now is not for us.
          waiting.splice(waiting.indexOf(take), 1)
          reject(new Error('no browser came back'))
        }, 180_000)
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

/** Signs in as a person does: address, mail, code. */
export const signInOn = async (page: Page, world: World, email: string): Promise<void> => {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('button', { name: 'Send me a code' }).click()
  let letter = await world.mail.next(email)
  while (!letter.text.includes('is your code')) letter = await world.mail.next(email)
  await page.getByLabel('Code from the mail').fill(codeIn(letter.text))
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}

/**
 * No secret that this process has issued stands in an address that stayed, in what was sent on as a referrer, in any page as
 * it came or as it is now, in what pages can store, or in the log. What is shown on purpose is named.
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

/** How a page looks: by day, by night, and in a hand. */
export const looks = { light: { width: 1024, dark: false }, dark: { width: 1024, dark: true }, phone: { width: 390, dark: false } }

/** The page as it is now in every look: axe finds nothing, and nothing hangs over the edge; with a picture of each, where they are wanted. */
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

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Everything that axe has to say about a page: nothing, or it fails. */
export const expectAccessible = async (page: Page): Promise<void> => {
  const findings = (await page.evaluate(
    `${axe}; axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then((found) => found.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))`,
  )) as string[]
  expect(findings).toEqual([])
  // Nothing hangs over the edge.
  expect(await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')).toBeLessThanOrEqual(0)
}

export type { Browser, BrowserContext, Page }
