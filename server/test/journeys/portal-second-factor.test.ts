import { createRequire } from 'node:module'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { codeAt, stepOf } from '../../src/modules/identity/factors/factors.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { expectAccessible, openBrowser, openContext, type Browser } from '../harness/browser.ts'
import { openWorld, type World } from '../harness/world.ts'

// The page that sets up a second factor: its QR code and its recovery codes.
let world: World
let browser: Browser
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
})
afterAll(async () => {
  await browser.close()
  await world.close()
})

type Decode = (image: { width: number; height: number; data: Uint8Array }) => string

/** Reads the QR code that an SVG path of single modules draws. */
const readQr = async (path: string, modules: number): Promise<string> => {
  const reader = createRequire(new URL('../../../web/package.json', import.meta.url)).resolve('qr/decode.js')
  const { decodeQR } = (await import(reader)) as { decodeQR: Decode }
  const scale = 4
  const width = modules * scale
  const data = new Uint8Array(width * width * 4).fill(255)
  for (const [, x, y] of path.matchAll(/M(\d+) (\d+)h1v1h-1z/g))
    for (let dy = 0; dy < scale; dy++)
      for (let dx = 0; dx < scale; dx++)
        data.fill(0, ((Number(y) * scale + dy) * width + Number(x) * scale + dx) * 4, ((Number(y) * scale + dy) * width + Number(x) * scale + dx) * 4 + 3)
  return decodeQR({ width, height: width, data })
}

test('sets up a second factor with the QR code of the page, and copies the recovery codes', async () => {
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const person = await world.person()
  const { context, violations, close } = await openContext(browser, world, { cookie: await person.cookie(), dark: true })
  const page = await context.newPage()
  await page.goto(`${world.config.public_url.origin}/settings/security`)
  await page.getByRole('button', { name: 'Set up a second factor' }).click()
  const image = page.getByRole('img', { name: 'QR code that adds this account to an authenticator app' })
  const modules = Number((await image.getAttribute('viewBox'))!.split(' ')[2])
  const uri = await readQr((await image.locator('path').getAttribute('d'))!, modules)
  expect(uri).toBe(await page.getByRole('link', { name: 'Open in an authenticator on this device' }).getAttribute('href'))
  // Scanners need a light ground, also in the dark theme.
  expect(await page.evaluate(`getComputedStyle(document.querySelector('svg.qr rect')).fill`)).toBe('rgb(255, 255, 255)')
  expect(await page.locator('script').count()).toBe(0)
  await expectAccessible(page)

  const secret = new URL(uri).searchParams.get('secret')!
  const bits = Array.from(secret, (letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0')).join('')
  const bytes = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
  await page.getByLabel('Code from the app').fill(codeAt(new Secret(bytes.toString('base64')), stepOf(world.clock.wall())))
  await page.getByRole('button', { name: 'Turn on' }).click()
  const codes = page.getByLabel('Your recovery codes').last()
  await codes.waitFor()
  await page.evaluate('navigator.clipboard.writeText = async (text) => void (window.copied = text)')
  await page.getByRole('button', { name: 'Copy Your recovery codes' }).click()
  expect(await page.evaluate('window.copied')).toBe(await codes.textContent())
  expect((await codes.textContent())!.trim().split('\n')).toHaveLength(10)
  await expectAccessible(page)
  expect(violations).toEqual([])
  await close()
})
