import { afterAll, beforeAll, expect, test } from 'vitest'
import { exchange, openWorld, type World } from '../harness/world.ts'

// The frame of the dashboard as the server sends it, without a browser.
let world: World
beforeAll(async () => {
  world = await openWorld()
})
afterAll(() => world.close())

const open = async (path: string, cookie?: string, headers: Record<string, string> = {}) =>
  exchange(world.port, 'GET', path, { host: 'bursar.test', accept: 'text/html', ...(cookie === undefined ? {} : { cookie }), ...headers })
/** The JSON in the page, as the script of the dashboard reads it. */
const islandOf = (html: string) => JSON.parse(/<script id="island" type="application\/json">(.*?)<\/script>/s.exec(html)![1]!) as Record<string, unknown>

test('leads a person to their last organization, and an anonymous visitor to the sign-in', async () => {
  const person = await world.person()
  const [first, second] = [await world.organization({ owner: person.id }), await world.organization({ owner: person.id })]
  const cookie = await person.cookie()
  expect((await open('/dashboard')).headers.get('location')).toBe('/login?return_to=%2Fdashboard')
  const chosen = await open(`/dashboard/${second.slug}`, cookie)
  expect(chosen.status).toBe(200)
  const [, remembered] = new RegExp(`([^\\s;,]+=${second.slug})`).exec(chosen.headers.get('set-cookie') ?? '')!
  expect((await open('/dashboard', `${cookie}; ${remembered}`)).headers.get('location')).toBe(`/dashboard/${second.slug}`)
  expect([`/dashboard/${first.slug}`, `/dashboard/${second.slug}`]).toContain((await open('/dashboard', cookie)).headers.get('location'))
})

test('shows no organization of others, and no link that the role may not follow', async () => {
  const owner = await world.organization()
  const person = await world.person()
  await world.organization({ owner: person.id })
  expect((await open(`/dashboard/${owner.slug}`, await person.cookie())).status).toBe(404)
  const clerk = await world.person()
  await world.join(owner.id, clerk.id, 'finance')
  const page = await open(`/dashboard/${owner.slug}/orders`, await clerk.cookie())
  expect(page.text).toContain(`href="/dashboard/${owner.slug}/orders"`)
  expect(page.text).not.toContain(`href="/dashboard/${owner.slug}/webhooks"`)
  const { organization } = islandOf(page.text) as { organization: { role: string; permissions: string[] } }
  expect(organization.role).toBe('finance')
  expect(organization.permissions).toContain('sales:read')
  expect(organization.permissions).not.toContain('organization:manage')
})

test('keeps an operator without a second factor out', async () => {
  const operator = await world.person({ is_operator: true })
  const organization = await world.organization({ owner: operator.id })
  const page = await open(`/dashboard/${organization.slug}`, await world.signIn(operator.id))
  expect(page.status).toBe(403)
  expect(page.text).toContain('Add a second factor first')
})

test('escapes names in its data, and forbids scripts of others, inline styles and texts as code', async () => {
  const organization = await world.organization()
  const name = '</script><script>alert(1)</script><!--'
  await world.database.owner((owner) => owner.query('update organizations set name = $2 where id = $1', [organization.id, name]))
  const page = await open(`/dashboard/${organization.slug}`, await world.signIn(organization.owner))
  expect(page.text).not.toContain('<script>alert(1)')
  expect((islandOf(page.text) as { organization: { name: string } }).organization.name).toBe(name)
  const policy = page.headers.get('content-security-policy')!
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ])
    expect(policy.split('; ')).toContain(part)
})

test('sends its scripts compressed, for ever, and only from this origin', async () => {
  const organization = await world.organization()
  const page = await open(`/dashboard/${organization.slug}`, await world.signIn(organization.owner))
  const files = [...page.text.matchAll(/(?:src|href)="(\/assets\/dashboard\/[^"]+\.js)"/g)].map(([, file]) => file!)
  expect(files.length).toBeGreaterThan(1)
  expect([...page.text.matchAll(/(?:src|href)="(https?:)?\/\//g)]).toEqual([])
  for (const file of new Set(files)) {
    const plain = await open(file)
    expect([plain.status, plain.headers.get('cache-control'), plain.headers.get('vary')]).toEqual([
      200,
      'public, max-age=31536000, immutable',
      'accept-encoding',
    ])
    for (const [accepted, encoding] of [
      ['gzip', 'gzip'],
      ['gzip, br', 'br'],
    ] as const) {
      const answer = await fetch(`http://127.0.0.1:${world.port}${file}`, { headers: { 'accept-encoding': accepted } })
      expect(answer.headers.get('content-encoding')).toBe(encoding)
      expect(await answer.text()).toBe(plain.text)
    }
  }
})
