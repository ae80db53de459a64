import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core'
import { expect } from 'vitest'
import { noteSecrets } from './secrets.ts'
import { codeIn } from './mail.ts'
import type { World } from './world.ts'

const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The system's own browser, without a window. */
export const openBrowser = (): Promise<Browser> => chromium.launch({ executablePath: process.env.BURSAR_TEST_CHROMIUM ?? '/usr/bin/chromium', args: flags })

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
  context.setDefaultTimeout(20_000)
  const violations: string[] = []
  context.on('console', (message) => {
    if (/Content Security Policy|Refused to/i.test(message.text())) violations.push(message.text())
  })
  context.on('request', (request) => noteSecrets(request.url()))
  return { context, violations, close: () => context.close() }
}

/** An app's own server, where browsers come back to: it remembers with what. */
export const openCallback = async () => {
  const seen: URL[] = []
  const waiting: ((url: URL) => void)[] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url!, 'http://127.0.0.1')
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
    /** The next return of a browser, now or when it comes. */
    next: (): Promise<URL> => {
      const had = seen.shift()
      if (had) return Promise.resolve(had)
      return new Promise((resolve, reject) => {
        const late = setTimeout(() => {
          // Whoever comes now is not for us.
          waiting.splice(waiting.indexOf(take), 1)
          reject(new Error('no browser came back'))
        }, 20_000)
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
