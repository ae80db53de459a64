import { gzipSync } from 'node:zlib'
import { mkdirSync } from 'node:fs'
import { listOrders } from '@bursar/contract'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { expectAccessible, openBrowser, type Browser, type ContextOptions } from '../harness/browser.ts'
import { openDeployment, openLife } from '../harness/crashes.ts'
import { openPortals, type Portals } from '../harness/portals.ts'
import { openTeams, type Team, type Teams } from '../harness/teams.ts'
import { openWorld, type World } from '../harness/world.ts'

// Journeys of owners and billing managers in the portal, with a real browser.
let world: World
let browser: Browser
let teams: Teams
let portals: Portals
let deployment: Awaited<ReturnType<typeof openDeployment>>
beforeAll(async () => {
  ;[world, browser] = await Promise.all([openWorld({ browser: true }), openBrowser()])
  deployment = await openDeployment(world, openLife(null))
  teams = await openTeams(world, deployment)
  portals = openPortals(world, teams, browser)
})
afterAll(async () => {
  await browser.close()
  await deployment.close()
  await world.close()
})

const fresh = (name: string) => `${name}-${Math.round(performance.now() * 1000)}@people.test`
const charges = async (team: Team) =>
  (await team.api.call(listOrders, { query: { customer_id: [team.customer_id], sorting: ['-created_at'] } })).items.filter(
    ({ billing_reason }) => billing_reason === 'subscription_update',
  )

test('charges a billing manager exactly the price that was shown for a new number of seats', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, violations, close } = await portals.enter(team, { role: 'billing_manager', email: fresh('manager') })
  await go('/team')
  await page.getByText('0 active, 0 invited, 3 free').waitFor()
  // The button is disabled until the page shows a price.
  expect(await page.getByRole('button', { name: 'Change', exact: true }).isDisabled()).toBe(true)
  await page.getByLabel('Number of seats').fill('5')
  const press = page.getByRole('button', { name: 'Change to 5 seats' })
  await press.waitFor()
  const shown = await page.locator('dl.price').innerText()
  expect(shown).toContain('$20.00')
  expect(shown).toContain('$50.00 a month')
  expect(shown).toContain('5 seats, at once')
  expect(await page.getByRole('status').last().textContent()).toContain('$20.00')
  expect((await team.seats()).total_seats).toBe(3)
  // Submits the form after the number changed and before its price has loaded. The page shows the price and buys nothing.
  await page.evaluate(`document.querySelector('input[name=value]').value = '9'`)
  await press.click()
  await page.getByRole('button', { name: 'Change to 9 seats' }).waitFor()
  expect((await team.seats()).total_seats).toBe(3)
  await page.getByLabel('Number of seats').fill('5')
  await press.waitFor()
  await press.click()
  await page.getByText('The number of seats was changed.').waitFor()
  expect((await team.seats()).total_seats).toBe(5)
  const [order] = await charges(team)
  expect([order!.status, order!.total_amount]).toEqual(['paid', 2000])
  expect(violations).toEqual([])
  await close()
})

for (const script of [true, false])
  test(`invites by paste, resends, changes roles, takes seats back and changes their number, ${script ? 'with' : 'without'} script`, async () => {
    const team = await portals.team({ seats: 4 })
    const { page, go, violations, close } = await portals.enter(team, {}, { script })
    const [anna, bert, cora, dora] = ['anna', 'bert', 'cora', 'dora'].map(fresh) as [string, string, string, string]
    const row = (email: string) => page.locator('tr', { hasText: email })
    const open = (email: string) => row(email).locator('summary').first().click()
    await go('/team')
    await page.getByText('None of these seats is given to a person yet. You have 4 free seats.').waitFor()

    await page.getByLabel('E-mail addresses').fill(`Anna Berg <${anna}>, ${bert};\n${cora}\t${anna.toUpperCase()} and nobody@`)
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('Results', { exact: true }).waitFor()
    const results = await page.locator('.results li').allInnerTexts()
    expect(results.map((line) => line.replace(/\s+/g, ' ').split(' ').slice(-1)[0])).toEqual(['invited', 'invited', 'invited', expect.any(String)])
    // An invalid address is reported, and stays in the field for correction.
    expect(results[3]).toContain('nobody@')
    expect(await page.getByLabel('E-mail addresses').inputValue()).toBe('nobody@')
    await page.getByText('0 active, 3 invited, 1 free').waitFor()
    await teams.settle()
    const first = await world.mail.next(anna)

    await open(anna)
    await row(anna).getByRole('button', { name: 'Send the invitation again' }).click()
    await page.getByText('A new invitation is on its way').waitFor()
    await teams.settle()
    expect((await world.mail.next(anna)).text).not.toBe(first.text)

    await open(bert)
    await row(bert).locator('select').selectOption('billing_manager')
    await row(bert).getByRole('button', { name: 'Change role' }).click()
    await page.getByText('The role was changed.').waitFor()
    expect(await row(bert).innerText()).toContain('Billing manager')

    // Members cannot demote themselves, and the owner keeps the role. The control shows the reason.
    const others = page.getByRole('region', { name: 'In the team, without a seat' })
    await others.locator('summary').click()
    expect(await others.locator('select').isDisabled()).toBe(true)
    await others.getByText('You cannot change your own role').waitFor()

    // If the new number is below the number of assigned seats, the page lists the seats to take back.
    await page.getByLabel('Number of seats').fill('2')
    await page.getByRole('button', { name: 'Show price' }).click()
    await page.getByRole('group', { name: 'Choose 1 seat to take back first' }).getByLabel(cora).waitFor()
    expect(await page.getByRole('button', { name: 'Change', exact: true }).isDisabled()).toBe(true)

    await open(cora)
    await row(cora).getByText('Take the seat back').click()
    await row(cora).getByText('loses at once: All courses of the workshop').waitFor()
    await row(cora).getByRole('button', { name: 'Yes, take it back' }).click()
    await page.getByText('The seat was taken back').waitFor()
    await page.getByText('0 active, 2 invited, 2 free').waitFor()
    expect(await row(cora).count()).toBe(0)
    await page.getByLabel('Status').selectOption('revoked')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await row(cora).waitFor()
    await page.getByLabel('Address or name').fill('no such person')
    await page.getByRole('button', { name: 'Show', exact: true }).click()
    await page.getByText('No person matches your filter.').waitFor()
    await page.getByRole('link', { name: 'Show all people' }).click()

    // If more people are invited than seats are free, the page offers to buy more seats.
    const five = ['emil', 'fred', 'gina'].map(fresh)
    await page.getByLabel('E-mail addresses').fill([anna, ...five].join('\n'))
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('could not be invited').waitFor()
    expect((await page.locator('.results li').allInnerTexts()).map((line) => line.replace(/\s+/g, ' ').replace(/^\S+ /, ''))).toEqual([
      'has a seat already',
      'invited',
      'invited',
      'not invited: no free seat',
    ])
    expect(await page.getByLabel('E-mail addresses').inputValue()).toBe(five[2])
    await page.getByRole('button', { name: 'See the price of 1 more' }).click()
    await page.getByRole('button', { name: 'Change to 5 seats' }).click()
    await page.getByText('The number of seats was changed.').waitFor()
    expect((await charges(team)).map(({ total_amount }) => total_amount)).toEqual([1000])

    await page.getByLabel('E-mail addresses').fill('no address at all')
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await page.getByText('This text contains no e-mail address').waitFor()
    // Invites a person with the role of a billing manager.
    await page.getByLabel('E-mail addresses').fill(dora)
    await page.getByRole('radio', { name: /Billing manager/ }).check()
    await page.getByRole('button', { name: 'Send invitations' }).click()
    await row(dora).waitFor()
    expect(await row(dora).innerText()).toContain('Billing manager')

    // Takes the seat back, then removes the person from the team.
    await open(dora)
    await row(dora).getByText('Take the seat back').click()
    await row(dora).getByRole('button', { name: 'Yes, take it back' }).click()
    await page.getByText('The seat was taken back').waitFor()
    const left = others.locator('li', { hasText: dora })
    await left.locator('summary').first().click()
    await left.getByText('Remove from the team').click()
    await left.getByRole('button', { name: 'Yes, remove them' }).click()
    await page.getByText('The person was removed from the team.').waitFor()
    expect(await left.count()).toBe(0)
    expect(violations).toEqual([])
    await close()
  })

test('refuses to buy at an unseen price, even if the form claims one', async () => {
  const team = await portals.team({ seats: 3 })
  const { page, go, at, close } = await portals.enter(team)
  await go('/team')
  // Stops the clock, so that the prorated price does not change during the test.
  world.clock.hold()
  onTestFinished(() => world.clock.release())
  const csrf = await page.locator('input[name=csrf]').first().inputValue()
  const post = (form: Record<string, string>) =>
    page.request.post(at('/team'), {
      form: { csrf, do: 'change', what: 'seats', subscription_id: team.subscription_id!, ...form },
      headers: { 'sec-fetch-site': 'same-origin', origin: world.config.public_url.origin },
      maxRedirects: 0,
    })
  const seens: Record<string, string>[] = [
    { value: '8' },
    { value: '8', seen: '7 5000 8000' },
    { value: '8', seen: '8 4000 8000' },
    { value: '8', seen: '8 5000 7000' },
  ]
  for (const form of seens) {
    const answer = await post(form)
    expect([form, answer.status()]).toEqual([form, 200])
    expect(await answer.text()).toContain('Change to 8 seats')
  }
  expect((await team.seats()).total_seats).toBe(3)
  expect((await post({ value: '8', seen: '8 5000 8000' })).status()).toBe(303)
  expect((await team.seats()).total_seats).toBe(8)
  await close()
})

describe('pages', () => {
  const looks: Record<string, ContextOptions> = { light: {}, dark: { dark: true }, phone: { width: 390 } }
  const pictures = process.env.BURSAR_TEST_PICTURES
  if (pictures) mkdirSync(pictures, { recursive: true })

  let shared: Promise<{ team: Team; order_id: string }> | undefined
  const many = async () => {
    const team = await portals.team({ seats: 30 })
    for (let at = 0; at < 6; at++) await teams.assign(team, { email: fresh(`person${at}`) })
    await teams.claim(await teams.assign(team, { email: fresh('claimed') }))
    return { team, order_id: team.order_id }
  }

  for (const [look, options] of Object.entries(looks))
    test(`has accessible pages without policy violations or horizontal overflow, ${look}`, async () => {
      const { team, order_id } = await (shared ??= many())
      const { page, go, violations, close } = await portals.enter(team, { return_url: 'https://shop.example/account' }, options)
      const shown = async (name: string) => {
        await expectAccessible(page)
        if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true })
      }
      const places = {
        overview: '/overview',
        subscriptions: '/subscriptions',
        orders: '/orders',
        order: `/orders/${order_id}`,
        billing: '/billing',
        'flow-cancel': '/subscriptions?flow=cancel',
        'flow-method': '/billing?flow=payment_method',
      }
      for (const [name, path] of Object.entries(places)) {
        await go(path)
        await shown(name)
      }
      await go('/team')
      await page.getByLabel('Number of seats').fill('33')
      await page.getByRole('button', { name: 'Change to 33 seats' }).waitFor()
      await page.locator('.people .menu summary').first().click()
      await shown('team')
      expect(violations).toEqual([])
      await close()
    })

  test('keeps the team page small for a team of twenty-five', async () => {
    const team = await portals.team({ seats: 30 })
    for (let at = 0; at < 25; at++) await teams.assign(team, { email: fresh(`colleague${at}`) })
    const { page, go, close } = await portals.enter(team)
    const answer = await go('/team')
    expect(await page.locator('.people tbody tr').count()).toBe(25)
    expect(gzipSync(await answer!.body()).length).toBeLessThanOrEqual(12 * 1024)
    const script = await page.evaluate(`fetch(document.querySelector('script').src).then((answer) => answer.text())`)
    expect(gzipSync(script as string).length).toBeLessThanOrEqual(10 * 1024)
    await close()
  })

  test('refuses management pages to a plain member, and refers to the owner or a billing manager', async () => {
    const team = await portals.team({ seats: 3 })
    const { page, go, at, close } = await portals.enter(team, { role: 'member', email: fresh('plain') })
    for (const path of ['/overview', '/team', '/subscriptions', '/orders', `/orders/${team.order_id}`, '/billing', '/subscriptions?flow=cancel']) {
      const answer = await go(path)
      expect([path, answer!.status()]).toEqual([path, 403])
      await page.getByText('Ask the owner or a billing manager').waitFor()
      expect(await page.content()).not.toContain('$')
    }
    await expectAccessible(page)
    const csrf = await page.locator('input[name=csrf]').first().inputValue()
    for (const path of ['/team', '/subscriptions', '/billing', `/orders/${team.order_id}`]) {
      const answer = await page.request.post(at(path), {
        form: { csrf, do: 'cancel', subscription_id: team.subscription_id! },
        headers: { 'sec-fetch-site': 'same-origin', origin: world.config.public_url.origin },
        maxRedirects: 0,
      })
      expect([path, answer.status()]).toEqual([path, 403])
    }
    await close()
  })
})
