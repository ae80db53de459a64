import { createBenefit, getPortalUser, listLicenseKeys, resendSeatInvitation, revokeSeat, updateProductBenefits } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { days } from '../../src/platform/clock.ts'
import { expectGoodLooks, expectNoSecrets, openBrowser, openContext, type Browser, type ContextOptions } from '../harness/browser.ts'
import { openTeams, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of a person who claims a seat, in a real browser.
let world: World
let browser: Browser
let teams: Teams
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  teams = await openTeams(world)
})
afterAll(async () => {
  await browser.close()
  await teams.close()
  await world.close()
})

const origin = () => world.config.public_url.origin

/** Creates a team whose plan grants a license key and a note, and invites a person to it. */
const invite = async (email: string) => {
  const shop = await world.shop()
  const [key, note] = await Promise.all([
    shop.api.call(createBenefit, { body: { type: 'license_keys', description: 'Workshop license', properties: { prefix: null } } }),
    shop.api.call(createBenefit, { body: { type: 'custom', description: 'Opening hours', properties: { note: 'Come when the light is on.' } } }),
  ])
  const team = await teams.buy({ shop, seats: 5, benefits: [key.id, note.id] })
  const seat = await teams.assign(team, { email })
  const token = await teams.invited(seat)
  const base = `${origin()}/${team.organization.slug}/portal`
  return { team, seat, token, base, benefits: [key.id, note.id], link: `${base}/claim?token=${token}` }
}
type Invited = Awaited<ReturnType<typeof invite>>

/** Runs a visit in a new browser context. Then checks that the visit violated no content policy and leaked no secret. */
const visit = async <T>(options: ContextOptions, live: (page: Awaited<ReturnType<typeof openPage>>['page']) => Promise<T>, shownOnPurpose: string[] = []) => {
  const { page, violations, close } = await openPage(options)
  const lived = await live(page)
  await expectNoSecrets(page, shownOnPurpose)
  await close()
  expect(violations).toEqual([])
  return lived
}
const openPage = async (options: ContextOptions) => {
  const { context, violations, close } = await openContext(browser, world, options)
  return { page: await context.newPage(), violations, close }
}
type Page = Awaited<ReturnType<typeof openPage>>['page']

const headingOf = (page: Page) => page.getByRole('heading', { level: 1 }).textContent()
const accept = (page: Page) => page.getByRole('button', { name: 'Accept the seat' }).click()
const keyOf = async ({ team, seat }: Invited) =>
  (await team.api.call(listLicenseKeys, { query: {} })).items.find(({ member_id }) => member_id === seat.member_id)!.key

test('shows an invited person the seat, claims it, waits for its benefits and reveals the license key [S4-31]', async () => {
  const invited = await invite('alice@claims.test')
  const { base, link, team, benefits } = invited
  const shown: string[] = []
  await visit(
    {},
    async (page) => {
      const answers: string[] = []
      page.on('response', (response) => void (response.url().includes('/portal/claim') && answers.push(response.headers()['content-security-policy'] ?? '')))
      // Opening the link does not use up the invitation, so a mail scanner or a second visit does no harm.
      for (const _ of [1, 2, 3]) await page.goto(link)
      expect(page.url()).toBe(`${base}/claim`)
      expect(await headingOf(page)).toBe('Your seat in Workshop')
      const words = (await page.locator('main').textContent())!
      for (const word of [`Works has given you a seat in Workshop from ${team.organization.name}.`, 'Workshop license', 'Opening hours', 'alice@claims.test'])
        expect(words).toContain(word)
      expect(await page.locator('main button').count()).toBe(1)
      await expectGoodLooks(page, 'claim')
      // The page reloads after three seconds. The test delays the reload until the plan has one more benefit.
      const { promise: changed, resolve: change } = Promise.withResolvers<void>()
      await accept(page)
      await page.getByText('0 of 2 ready').waitFor()
      expect(page.url()).toBe(`${base}/claim/ready`)
      await page.route('**/claim/ready', (route) => void changed.then(() => route.continue()))
      // The plan now has one more benefit. The page shows it without script.
      await teams.settle()
      const more = await team.api.call(createBenefit, { body: { type: 'custom', description: 'A mug', properties: { note: null } } })
      await team.api.call(updateProductBenefits, { params: { id: team.product_id }, body: { benefits: [...benefits, more.id] } })
      change()
      await page.getByText('2 of 3 ready').waitFor()
      await page.unroute('**/claim/ready')
      // Removes the meta refresh before the check, because axe rejects it. The page refreshes only for a few seconds. A
      // refresh loses no input, and the page shows a link to continue.
      const still = await page.context().newPage()
      await still.route('**/claim/ready', async (route) => {
        const response = await route.fetch()
        await route.fulfill({ response, body: (await response.text()).replace(/<meta http-equiv="refresh"[^>]*>/, '') })
      })
      await still.goto(`${base}/claim/ready`)
      await expectGoodLooks(still, 'claim-ready')
      await still.close()
      expect(await page.locator('script').count()).toBe(0)
      await teams.settle()
      await page.waitForURL(`${base}/access?done=claimed`)
      expect(answers.length).toBeGreaterThan(4)
      expect(answers.filter((policy) => policy.includes('script-src'))).toEqual([])

      const key = await keyOf(invited)
      shown.push(key)
      expect(await page.content()).not.toContain(key)
      await page.getByRole('button', { name: 'Show the key of Workshop license' }).click()
      await page.getByText(key).waitFor()
      expect(await page.locator('#said').textContent()).toBe('The key is shown.')
      expect(page.url()).toContain('/portal/access')
    },
    shown,
  )
})

test('shows and claims a seat without script', async () => {
  const invited = await invite('bob@claims.test')
  const { base, link } = invited
  const shown: string[] = []
  await visit(
    { script: false },
    async (page) => {
      await page.goto(link)
      await accept(page)
      await page.getByText('0 of 2 ready').waitFor()
      // The page reloads by itself.
      await teams.settle()
      await page.waitForURL(`${base}/access?done=claimed`)
      shown.push(await keyOf(invited))
      await page.getByRole('button', { name: 'Show the key of Workshop license' }).click()
      await page.getByText(shown[0]!).waitFor()
      expect(await page.getByRole('button', { name: 'Copy' }).isVisible()).toBe(false)
    },
    shown,
  )
})

test('explains each kind of invalid invitation link, with a suitable next step', async () => {
  const invited = await invite('carol@claims.test')
  const { base, link, team } = invited
  const others = await Promise.all(['late', 'gone'].map((who) => teams.assign(team, { email: `${who}@claims.test` })))
  const [late, gone] = [await teams.invited(others[0]!), await teams.invited(others[1]!)]

  await visit({}, async (page) => {
    await page.goto(link)
    await accept(page)
    await teams.settle()
    await page.waitForURL(/access/)
    // The seat belongs to this person already, so the page links to the portal.
    await page.goto(link)
    expect(await headingOf(page)).toBe('This seat is yours already')
    await expectGoodLooks(page, 'claim-mine')
    await page.getByRole('link', { name: 'Open your portal' }).click()
    expect(page.url()).toBe(`${base}/access`)
  })

  // The same link in a new browser: the invitation is used, and sign-in is by mail.
  await visit({}, async (page) => {
    await page.goto(link)
    expect(await headingOf(page)).toBe('This invitation has been used')
    await expectGoodLooks(page, 'claim-used')
    await page.getByRole('button', { name: 'Send a code to carol@claims.test' }).click()
    expect(await headingOf(page)).toBe('Check your e-mail')
  })

  await team.api.call(revokeSeat, { params: { seat_id: others[1]!.id } })
  await visit({}, async (page) => {
    await page.goto(`${base}/claim?token=${gone}`)
    expect(await headingOf(page)).toBe('This seat was taken back')
    await expectGoodLooks(page, 'claim-revoked')
    await page.getByRole('link', { name: 'Sign in to the portal' }).click()
    expect(page.url()).toBe(`${base}/sign-in`)
  })

  world.clock.advance(14 * days)
  await visit({}, async (page) => {
    await page.goto(`${base}/claim?token=${late}`)
    expect(await headingOf(page)).toBe('This invitation has expired')
    await expectGoodLooks(page, 'claim-expired')
    for (const _ of [1, 2]) {
      await page.goto(`${base}/claim`)
      await page.getByRole('button', { name: 'Ask for a new invitation' }).click()
      expect(await headingOf(page)).toBe('We have sent your request')
    }
    await expectGoodLooks(page, 'claim-asked')
  })
  await teams.post('mail.seat_requested')
  const letter = await world.mail.next(team.owner.email)
  expect(letter).toMatchObject({ subject: 'late@claims.test bittet um eine neue Einladung', from: { name: team.organization.name } })
  expect(letter.text).toContain(`${base}?flow=team`)
  // The team owner gets one mail, although the visitor asked twice for a new invitation.
  expect(world.mail.letters.filter(({ to }) => to === team.owner.email)).toEqual([])
})

test('gives the same answer to an unknown and a replaced invitation link, and does not accept a link at another seller', async () => {
  const { base, link, team, seat } = await invite('dora@claims.test')
  const elsewhere = await world.shop()
  await team.api.call(resendSeatInvitation, { params: { seat_id: seat.id } })
  const fresh = await teams.invited(seat)
  await visit({}, async (page) => {
    const seen = async (address: string) => {
      const answer = await page.goto(address)
      return [answer!.status(), await page.locator('main').textContent()]
    }
    const replaced = await seen(link)
    expect(replaced[0]).toBe(404)
    expect(replaced[1]).toContain('This link does not work')
    expect(await seen(`${base}/claim?token=bursar_test_sit_${'a'.repeat(43)}`)).toEqual(replaced)
    expect(await seen(`${base}/claim?token=${encodeURIComponent('x; Path=/; <script>')}`)).toEqual(replaced)
    expect(await seen(`${origin()}/${elsewhere.organization.slug}/portal/claim?token=${fresh}`)).toEqual(replaced)
    expect(await seen(`${origin()}/nobody-at-all/portal/claim?token=${fresh}`)).toEqual([404, expect.any(String)])
    await expectGoodLooks(page, 'claim-unknown')
    // None of these requests has used up the invitation.
    await page.goto(`${base}/claim?token=${fresh}`)
    await accept(page)
    await page.getByText('The seat is yours').waitFor()
  })
})

test('names the invited address to a visitor who is signed in as another person, then switches the account and ends the earlier session', async () => {
  const { base, link, team } = await invite('eve@claims.test')
  const mallory = await teams.claim(await teams.assign(team, { email: 'mallory@claims.test' }))
  const name = `bursar_sandbox_portal_${team.organization.id}`
  await visit({ cookie: `${name}=${mallory.token}` }, async (page) => {
    await page.goto(link)
    expect(await page.getByRole('note').textContent()).toBe('This invitation is for eve@claims.test. You are signed in here as mallory@claims.test.')
    await expectGoodLooks(page, 'claim-other')
    expect((await mallory.portal.send(getPortalUser, {})).status).toBe(200)
    await page.getByRole('button', { name: 'Continue as eve@claims.test' }).click()
    await teams.settle()
    await page.waitForURL(`${base}/access?done=claimed`)
    expect(await page.locator('header').textContent()).toContain('eve@claims.test')
  })
  expect((await mallory.portal.send(getPortalUser, {})).status).toBe(401)
})

test('shows the pages for claiming a seat in German', async () => {
  const { link } = await invite('frieda@claims.test')
  await visit({ locale: 'de' }, async (page) => {
    await page.goto(link)
    expect(await headingOf(page)).toBe('Ihr Platz für Workshop')
    await page.getByRole('button', { name: 'Platz annehmen' }).click()
    await page.getByText('0 von 2 fertig').waitFor()
    await teams.settle()
    await page.getByRole('heading', { name: 'Ihr Zugang' }).waitFor()
    await expectGoodLooks(page, 'access-de')
  })
})
