import { spawn, type ChildProcess } from 'node:child_process'
import { createRequire } from 'node:module'
import { confirmClientCheckout, createDiscount, createProduct, createWebhookEndpoint, listCheckouts } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openBrowser, openContext, signInOn, type Browser } from '../harness/browser.ts'
import { openApp } from '../harness/visitor.ts'
import { eventually, freePort, openWorld, type World } from '../harness/world.ts'
import { Secret } from '../../src/kernel/secrets.ts'
import { sign, signingKeys } from '../../src/modules/webhooks/index.ts'

// Runs the examples as their README says, against a running system and with a real browser.
let world: World
let browser: Browser
const children: ChildProcess[] = []
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ worker: true, browser: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } }), openBrowser()])
})
afterAll(async () => {
  for (const child of children) child.kill()
  await browser.close()
  await world.close()
})

const folderOf = (example: string) => new URL(`../../../examples/${example}/`, import.meta.url).pathname

const run = (example: string, script: string, settings: Record<string, string>) => {
  const child = spawn(process.execPath, [script], { cwd: folderOf(example), env: { PATH: process.env.PATH, ...settings } })
  children.push(child)
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  return (wanted: RegExp) => eventually(`${script} prints ${wanted.source}; it printed: ${output}`, async () => wanted.exec(output) ?? undefined)
}

const someone = async () => {
  const person = await world.person()
  return { person, chosen: await world.organization({ owner: person.id }), other: await world.organization({ owner: person.id }) }
}

for (const [name, method, port] of [
  ['confidential', 'client_secret_post', '43101'],
  ['public', 'none', '43111'],
] as const)
  test(`signs a person in with the ${name} app, and shows the app only the chosen organizations`, async () => {
    const { person, chosen, other } = await someone()
    const app = await openApp(world, {
      redirect_uris: [`http://127.0.0.1:${port}/callback`],
      token_endpoint_auth_method: method,
      scope: 'openid email organizations:read',
    })
    const says = run('oauth-app', `${name}.ts`, {
      ISSUER: world.config.public_url.origin,
      CLIENT_ID: app.client_id,
      PORT: port,
      ...(app.client_secret === undefined ? {} : { CLIENT_SECRET: app.client_secret }),
    })
    const [, address] = await says(/open (\S+)/)
    const { context, close } = await openContext(browser, world)
    const page = await context.newPage()
    await page.goto(address!)
    if (name === 'confidential') await page.getByRole('link', { name: 'Sign in with Bursar' }).click()
    await signInOn(page, world, person.email)
    await page.getByRole('button', { name: 'Allow' }).waitFor()
    // One organization is preselected.
    await page.locator('input[name=organizations]:checked').uncheck()
    await page.locator(`input[value="${chosen.id}"]`).check()
    await page.getByRole('button', { name: 'Allow' }).click()
    if (name === 'confidential') {
      await page.getByRole('heading', { name: `Hello ${person.email}` }).waitFor()
      const text = await page.locator('ul').textContent()
      expect(text).toContain(chosen.name)
      expect(text).not.toContain(other.name)
    } else {
      const [line] = await says(/let us see: .*/)
      expect(line).toContain(chosen.name)
      expect(line).not.toContain(other.name)
      await says(/handed the token back/)
    }
    await close()
  })

test('sells with the Hono shop, whose adapter accepts only signed and known events', async () => {
  const { organization, api, events } = await world.shop()
  const port = await freePort()
  const home = `http://127.0.0.1:${port}`
  await api.call(createProduct, { body: { name: 'Field <guide>', prices: [{ amount_type: 'fixed', price_amount: 2900, price_currency: 'usd' }] } })
  const { secret } = await api.call(createWebhookEndpoint, { body: { url: `${home}/hooks`, format: 'raw', events: ['order.paid'] } })
  const token = (await organization.token(['products:read', 'checkouts:write', 'customer_sessions:write'])).secret.reveal()
  await run('hono-shop', 'shop.ts', { BURSAR: world.config.public_url.origin, TOKEN: token, WEBHOOK_SECRET: secret, PORT: String(port) })(/open /)

  const { context, close } = await openContext(browser, world)
  const page = await context.newPage()
  await page.goto(`${home}/portal`)
  expect(page.url(), 'nobody is a customer yet').toBe(`${home}/`)
  await page.getByRole('listitem').filter({ hasText: 'Field <guide>' }).getByRole('link', { name: 'Buy' }).click()
  await page.waitForURL(`${world.config.public_url.origin}/**`)
  await page.getByText('Field <guide>').first().waitFor()
  const [checkout] = (await api.call(listCheckouts, { query: {} })).items
  await world.client().call(confirmClientCheckout, {
    params: { client_secret: checkout!.client_secret },
    body: { customer_email: 'ada@hono.test', customer_billing_address: { country: 'DE' }, confirmation_token_id: 'tok_visa' },
  })
  await eventually('the shop has received the webhook', async () => {
    await page.goto(home)
    return page.getByText('You have bought: Field <guide>').isVisible()
  })
  await page.getByRole('link', { name: 'Your orders' }).click()
  await page.waitForURL(`${world.config.public_url.origin}/${organization.slug}/portal**`)
  await page.getByText('Field <guide>').first().waitFor()
  await close()

  // Sends every event kind of a purchase, and a kind that the adapter does not know, each with a right and a wrong signature.
  await api.call(createDiscount, { body: { name: 'Spring', type: 'percentage', basis_points: 1000, duration: 'once' } })
  const tell = async (body: string, by: string) => {
    const at = Math.floor(Date.now() / 1000)
    const headers = { 'webhook-id': 'again', 'webhook-timestamp': String(at), 'webhook-signature': sign(signingKeys(new Secret(by)), 'again', at, body) }
    return (await fetch(`${home}/hooks`, { method: 'POST', headers, body })).status
  }
  const answers: Record<string, [number, number]> = {}
  for (const event of await events()) {
    const body = JSON.stringify(event)
    answers[event.type] = [await tell(body, secret), await tell(body, `${secret}x`)]
  }
  const kinds = ['product.created', 'checkout.created', 'checkout.updated', 'customer.created', 'member.created', 'order.created', 'order.paid']
  expect(answers).toMatchObject({ ...Object.fromEntries(kinds.map((kind) => [kind, [200, 403]])), 'discount.created': [500, 403] })
})

test("the adapter's Checkout and CustomerPortal accept a server name such as sandbox, and reject a URL", () => {
  type Given = { accessToken: string; server: string }
  const adapter = createRequire(folderOf('hono-shop'))('@polar-sh/hono') as Record<'Checkout' | 'CustomerPortal', (given: Given) => unknown>
  for (const part of ['Checkout', 'CustomerPortal'] as const) {
    expect(() => adapter[part]({ accessToken: 'none', server: 'sandbox' })).not.toThrow()
    expect(() => adapter[part]({ accessToken: 'none', server: world.config.public_url.origin })).toThrow('Invalid URL')
  }
})
