import { authenticatePortalCode, createCustomer, requestPortalCode, requestSignInCode, verifySignInCode } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { blockOf } from '../../../src/kernel/networks.ts'
import { randomText } from '../../../src/kernel/secrets.ts'
import { codeIn, otherCode } from '../../harness/mail.ts'
import { eventually, openWorld, type World } from '../../harness/world.ts'

let world: World
beforeAll(async () => {
  // The server trusts this proxy address, so the test sets the client address by X-Forwarded-For.
  world = await openWorld({ worker: true, settings: { BURSAR_TRUSTED_PROXIES: '127.0.0.1' } })
})
afterAll(() => world.close())

const day = 86_400_000

/** Opens a browser at an IP address. It keeps the cookies that it receives. */
const openBrowser = (address: string) => {
  const jar = new Map<string, string>()
  const keep = <R extends { headers: Headers }>(reply: R): R => {
    for (const line of reply.headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1))
    }
    return reply
  }
  const client = () => {
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    return world.client({}, { 'x-forwarded-for': address, ...(cookie === '' ? {} : { cookie }) })
  }
  return { jar, keep, client }
}
type Browser = ReturnType<typeof openBrowser>

/** The common interface of both sign-ins by a mailed code: that of users, and that of customers in the portal. */
interface Surface {
  readonly email: string
  readonly ask: (browser: Browser, email?: string) => Promise<{ status: number; body: unknown; headers: Headers }>
  readonly enter: (browser: Browser, code: string) => Promise<number>
}

const surfaces: Record<string, () => Promise<Surface>> = {
  'people sign in': async () => {
    const { email } = await world.person()
    return {
      email,
      ask: async (browser, to = email) => browser.keep(await browser.client().send(requestSignInCode, { body: { email: to } })),
      enter: async (browser, code) => browser.keep(await browser.client().send(verifySignInCode, { body: { email, code } })).status,
    }
  },
  'customers open the portal': async () => {
    const { api, organization } = await world.shop()
    const email = `${randomText(10, 'abcdefghijklmnop')}@people.test`
    await api.call(createCustomer, { body: { email } })
    const organization_id = organization.id
    return {
      email,
      ask: async (browser, to = email) => browser.keep(await browser.client().send(requestPortalCode, { body: { organization_id, email: to } })),
      enter: async (browser, code) => browser.keep(await browser.client().send(authenticatePortalCode, { body: { organization_id, email, code } })).status,
    }
  },
}

/** Waits until every requested mail is sent. Returns all codes that were mailed to the address. */
const sent = async (email: string) => {
  await eventually(
    'every mail job has run',
    async () => (await world.database.owner((owner) => owner.query('select 1 from graphile_worker._private_jobs'))).rows.length === 0,
  )
  return world.mail.letters.filter(({ to }) => to === email).map(({ text }) => codeIn(text))
}
const askedBy = async ({ ask, email }: Surface, browser: Browser): Promise<string | undefined> => {
  const before = new Set(await sent(email))
  expect((await ask(browser)).status).toBe(202)
  return (await sent(email)).find((code) => !before.has(code))
}
const code = async (surface: Surface, browser: Browser): Promise<string> => (await askedBy(surface, browser)) ?? expect.fail('no code was mailed')

describe.each(Object.keys(surfaces))('%s', (name) => {
  const surface = () => surfaces[name]!()

  test("mails a code to a person after a stranger has used up the requests of the stranger's own network for that address", async () => {
    const at = await surface()
    const stranger = openBrowser('198.51.100.7')
    for (let round = 0; round < 20; round++) expect((await at.ask(stranger)).status).toBe(202)
    // Other addresses of the stranger's network count as the same network.
    for (let round = 0; round < 5; round++) await at.ask(openBrowser(`198.51.100.${20 + round}`))
    expect(await sent(at.email)).toHaveLength(5)
    const person = openBrowser('203.0.113.5')
    expect(await at.enter(person, await code(at, person))).toBe(200)
  })

  test('keeps a live code valid, because a stranger cannot void it by requests or wrong tries', async () => {
    const at = await surface()
    const person = openBrowser('203.0.113.5')
    const live = await code(at, person)
    // One stranger is in another network than the person, one in the same network.
    for (const address of ['198.51.100.7', '203.0.113.99']) {
      const stranger = openBrowser(address)
      await code(at, stranger)
      const wrong = await Promise.all(Array.from({ length: 12 }, () => at.enter(stranger, otherCode(live))))
      expect(new Set(wrong)).toEqual(new Set([401]))
      const bare = await Promise.all(Array.from({ length: 12 }, () => at.enter(openBrowser(address), otherCode(live))))
      expect(new Set(bare)).toEqual(new Set([401]))
    }
    expect(await at.enter(person, live)).toBe(200)
  })

  test('gives a browser five tries for the code that it requested, even if they arrive in parallel', async () => {
    const at = await surface()
    const [person, other] = [openBrowser('203.0.113.5'), openBrowser('203.0.113.6')]
    const [first, second] = [await code(at, person), await code(at, other)]
    const wrong = await Promise.all(Array.from({ length: 12 }, () => at.enter(person, otherCode(first))))
    expect(new Set(wrong)).toEqual(new Set([401]))
    expect(await at.enter(person, first)).toBe(401)
    expect(await at.enter(other, second)).toBe(200)
  })

  test('limits the tries of other browsers for a code to five in the same network and five from everywhere else', async () => {
    const at = await surface()
    const person = openBrowser('203.0.113.5')
    const live = await code(at, person)
    for (let round = 0; round < 5; round++) {
      expect(await at.enter(openBrowser('203.0.113.77'), otherCode(live))).toBe(401)
      expect(await at.enter(openBrowser(`10.${round}.0.1`), otherCode(live))).toBe(401)
    }
    expect(await at.enter(openBrowser('203.0.113.77'), live)).toBe(401)
    expect(await at.enter(openBrowser('10.99.0.1'), live)).toBe(401)
    expect(await at.enter(person, live)).toBe(200)
  })

  test('accepts a code from another browser in another network while tries are left', async () => {
    const at = await surface()
    const live = await code(at, openBrowser('2001:db8:1::5'))
    expect(await at.enter(openBrowser('203.0.113.5'), live)).toBe(200)
  })

  test('mails a code to a recognised browser after other networks have used up the limit of an address, and limits those mails too', async () => {
    const at = await surface()
    const person = openBrowser('203.0.113.5')
    expect(await at.enter(person, await code(at, person))).toBe(200)
    const [before] = [(await sent(at.email)).length]
    for (let network = 0; network < 8; network++) for (let round = 0; round < 5; round++) await at.ask(openBrowser(`10.${network}.0.1`))
    expect((await sent(at.email)).length - before).toBe(30)
    expect(await askedBy(at, openBrowser('192.0.2.1'))).toBeUndefined()
    // The recognised browser is now in a network that the person has not used before.
    const travelling = openBrowser('192.0.2.1')
    for (const [key, value] of person.jar) if (key.includes('recognised')) travelling.jar.set(key, value)
    expect(await at.enter(travelling, await code(at, travelling))).toBe(200)
    for (let round = 0; round < 15; round++) await at.ask(travelling)
    expect((await sent(at.email)).length - before).toBeLessThanOrEqual(30 + 11)
    // No code is mailed for a forged cookie, or for the cookie of another e-mail address.
    const forged = openBrowser('192.0.2.1')
    for (const [key, value] of person.jar)
      if (key.includes('recognised'))
        forged.jar.set(
          key,
          value.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
        )
    expect(await askedBy(at, forged)).toBeUndefined()
    const stranger = await surface()
    for (let network = 0; network < 6; network++) for (let round = 0; round < 5; round++) await stranger.ask(openBrowser(`10.${network}.0.1`))
    expect(await askedBy(stranger, travelling)).toBeUndefined()
  })

  test('recognises a browser for half a year, by a cookie without personal data', async () => {
    const at = await surface()
    const person = openBrowser('203.0.113.5')
    expect(await at.enter(person, await code(at, person))).toBe(200)
    const [, value = ''] = [...person.jar].find(([key]) => key.includes('recognised')) ?? []
    expect(value).toMatch(/^[a-z2-7]{24}\.\d{5}-[0-9a-f]{32}$/)
    world.clock.advance(181 * day)
    for (let network = 0; network < 6; network++) for (let round = 0; round < 5; round++) await at.ask(openBrowser(`10.${network}.0.1`))
    expect(await askedBy(at, person)).toBeUndefined()
  })

  test('answers a request for a code alike for a known, an unknown and a rate-limited address', async () => {
    const at = await surface()
    const limited = openBrowser('203.0.113.5')
    for (let round = 0; round < 6; round++) await at.ask(limited)
    const shape = ({ status, body, headers }: { status: number; body: unknown; headers: Headers }) => [
      status,
      body,
      [...headers.keys()].toSorted(),
      headers.getSetCookie().map((line) => line.replace(/=[a-z2-7]{32}-0;/, '=…;')),
    ]
    const known = shape(await at.ask(openBrowser('198.51.100.7')))
    expect(shape(await at.ask(openBrowser('198.51.100.7'), 'unknown@people.test'))).toEqual(known)
    expect(shape(await at.ask(openBrowser('203.0.113.5')))).toEqual(known)
    expect(await sent(at.email)).toHaveLength(6)
  })
})

test('counts an IPv4 /24 and an IPv6 /48 as one network', () => {
  expect(blockOf('203.0.113.9')).toBe('203.0.113.0/24')
  expect(blockOf('::ffff:203.0.113.250')).toBe('203.0.113.0/24')
  expect(blockOf('2001:db8:1:2::3')).toBe(blockOf('2001:0db8:0001:ffff:1::9'))
  expect(blockOf('2001:db8:2::1')).not.toBe(blockOf('2001:db8:1::1'))
})
