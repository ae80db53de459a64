import { createCustomer, getCustomer, listCustomers, listOrganizationTokens, updateCustomer } from '@bursar/contract'
import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { codeIn, hasCode } from '../../harness/mail.ts'
import { enter, heading, jump, press, tabTo } from '../../harness/keyboard.ts'
import { eventually } from '../../harness/world.ts'
import type { Task } from './tasks.ts'

export const customerTasks: readonly Task[] = [
  {
    name: 'opens a customer from the palette',
    run: async ({ page, go }) => {
      await go()
      await heading(page, 'Home')
      await page.keyboard.press('Control+k')
      await page.getByPlaceholder('Type a screen').waitFor()
      await page.keyboard.type('chiara@people.test')
      await page
        .getByRole('menuitem', { name: /Chiara/ })
        .first()
        .waitFor()
      await page.keyboard.press('Enter')
      await heading(page, 'Chiara Romano')
    },
  },
  {
    name: 'creates a customer',
    run: async ({ page, go, seller }) => {
      await go()
      await heading(page, 'Home')
      await jump(page, 'c', 'Customers')
      await press(page, 'New customer')
      await page.getByRole('dialog', { name: 'New customer' }).waitFor()
      await expectScreen(page, 'customer-new')
      await enter(page, /^E-mail/, 'nora@people.test')
      await enter(page, /^Name/, 'Nora Winter')
      await page.keyboard.press('Enter')
      await heading(page, 'Nora Winter')
      const { items } = await seller.api.call(listCustomers, { query: { email: 'nora@people.test' } })
      expect(items).toMatchObject([{ name: 'Nora Winter' }])
    },
  },
  {
    name: 'writes a note about a customer, and takes it back',
    run: async ({ page, go, seller }) => {
      const { customer_id: id } = seller
      const metadata = async () => (await seller.api.call(getCustomer, { params: { id } })).metadata
      await seller.api.call(updateCustomer, { params: { id }, body: { metadata: { tier: 'gold' } } })
      await go(`/customers/${id}`)
      await page.getByRole('heading', { name: 'Notes' }).waitFor()
      await enter(page, /^Note/, 'Asked for an invoice in June.')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The note was saved.').waitFor()
      expect(await metadata()).toEqual({ tier: 'gold', note: 'Asked for an invoice in June.' })
      await tabTo(page, 'Save the note')
      await page.keyboard.press('z')
      await page.getByText('The earlier note is back.').waitFor()
      expect(await metadata()).toEqual({ tier: 'gold' })
    },
  },
  {
    name: 'explains why a person has a benefit, and another person has not',
    run: async ({ page, go, seller }) => {
      await go(`/customers/${seller.customer_id}`)
      await press(page, 'Access')
      await page.locator('tbody tr').first().waitFor()
      await press(page, 'Why?')
      await heading(page, 'Why access?')
      await page.locator('.verdict.good').waitFor()
      await page.getByText('What would end it').first().waitFor()
      await tabTo(page, 'Person')
      await page.keyboard.type('mara')
      await page.locator('.verdict.bad').getByText('mara@works.test does not have').waitFor()
      await page.getByText('The person has not claimed the seat yet.').waitFor()
      await expectScreen(page, 'why-not')
    },
  },
  {
    name: 'finds out why a customer without any access has none',
    run: async ({ page, go, seller }) => {
      const { id } = await seller.api.call(createCustomer, { body: { email: 'asks@people.test' } })
      await go(`/customers/${id}`)
      await press(page, 'Access')
      await page.getByText('No access yet.').waitFor()
      await press(page, 'Why access, and why not?')
      await heading(page, 'Why access?')
      await tabTo(page, 'Benefit')
      await page.keyboard.press('End')
      await page.locator('.verdict.bad').getByText('No purchase of this person contains the benefit.').waitFor()
    },
  },
  {
    name: 'sees the seats of a purchase, and opens the portal as a member',
    run: async ({ page, context, go, seller }) => {
      await go(`/customers/${seller.customer_id}`)
      await press(page, 'People')
      await page.getByText('3 of 5 seats are assigned.').waitFor()
      const opening = context.waitForEvent('page')
      await press(page, /^Open the portal as /)
      const portal = await opening
      await portal.waitForURL(/\/portal/)
      await portal.getByText('Harbour Works').first().waitFor()
      // The portal cannot reach the dashboard.
      expect(await portal.evaluate('window.opener')).toBeNull()
    },
  },
  {
    name: 'creates an access token after a code, without typing the form twice',
    run: async ({ page, world, seller, broken, refused }) => {
      // The list of first steps is shown until a token was used, so it is shown to a new organization.
      const organization = await world.organization({ owner: seller.organization.owner })
      await page.goto(`${world.config.public_url.origin}/dashboard/${organization.slug}`)
      await page.getByRole('heading', { name: 'First steps' }).waitFor()
      const { rows } = await world.database.owner((owner) => owner.query<{ email: string }>('select email from users where id = $1', [organization.owner]))
      await world.database.owner((owner) =>
        owner.query(`update user_sessions set signed_in_at = created_at - interval '2 hours' where user_id = $1`, [organization.owner]),
      )
      await press(page, 'New access token')
      await enter(page, 'What it is for', 'Server of the shop')
      await expectScreen(page, 'token-new')
      await page.keyboard.press('Control+Enter')
      await page.getByRole('dialog', { name: 'Confirm that it is you' }).waitFor()
      await expectScreen(page, 'confirming')
      let letter = await world.mail.next(rows[0]!.email)
      while (!hasCode(letter)) letter = await world.mail.next(rows[0]!.email)
      await enter(page, 'Code from the mail', codeIn(letter.text))
      await page.keyboard.press('Enter')
      const dialog = page.getByRole('dialog', { name: 'Access token' })
      await dialog.waitFor()
      const token = await dialog.locator('pre').first().innerText()
      expect(await eventually('the token works', () => world.client({ token }).call(listCustomers, { query: { limit: 1 } }))).toBeDefined()
      const cookie = await world.signIn(organization.owner)
      const { items } = await world.client({ cookie }).call(listOrganizationTokens, { query: { limit: 100 } })
      expect(items.filter(({ comment }) => comment === 'Server of the shop').length).toBe(1)
      // The first request was refused, and the browser logs that itself. The second one had the same idempotency key.
      expect(refused.splice(0).map((one) => one.replace(/https?:\/\/[^/]+/, ''))).toEqual(['403 /v1/organization-access-tokens/'])
      expect(broken.splice(0).filter((text) => !text.includes('403'))).toEqual([])
    },
  },
]
