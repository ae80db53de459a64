import { getOrganization, getTaxSettings, listInvitations, listOrganizationTokens } from '@bursar/contract'
import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { enter, heading, jump, press, tabTo, toggle } from '../../harness/keyboard.ts'
import { eventually } from '../../harness/world.ts'
import type { Task } from './tasks.ts'

export const settingsTasks: readonly Task[] = [
  {
    name: 'follows the hint that no tax is collected, adds a rate, and takes it back',
    run: async ({ page, go, seller }) => {
      const read = async () => {
        const { provider, rates } = await seller.api.call(getTaxSettings, { query: {} })
        return { provider, rates }
      }
      await go()
      await press(page, 'No tax rates are set, so buyers pay no tax.')
      await page.getByText('No tax is collected.').waitFor()
      await tabTo(page, 'Country')
      await page.keyboard.type('German')
      await enter(page, 'Rate in percent', '19')
      await toggle(page, 'Reverse charge')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The rate of Germany applies to new orders.').waitFor()
      expect(await read()).toEqual({ provider: 'rates', rates: [{ country: 'DE', state: null, rate: '19', reverse_charge: true }] })
      await expectScreen(page, 'settings-taxes-set')
      await press(page, 'Undo')
      await page.getByText('The earlier settings are back.').waitFor()
      expect(await read()).toEqual({ provider: 'none', rates: [] })
      // The seller has decided, so the hint does not return.
      await go()
      await page.locator('.figure strong:not(:text("–"))').first().waitFor()
      expect(await page.getByText('No tax rates are set').count()).toBe(0)
    },
  },
  {
    name: 'allows saved cards at the checkout after reading the consequence, and takes it back',
    run: async ({ page, go, seller }) => {
      const isOn = async () => {
        const { feature_settings } = await seller.api.call(getOrganization, { params: { id: seller.organization.id } })
        return feature_settings!.saved_payment_methods_enabled ?? false
      }
      await go()
      await heading(page, 'Home')
      await jump(page, 's', 'Settings')
      await tabTo(page, 'Offer saved cards')
      // A screen reader reads the consequence with the name of the switch.
      const described = await page.evaluate<string>("document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent")
      expect(described).toContain('Everyone who knows the address of such a checkout can pay with these cards')
      expect(await isOn()).toBe(false)
      await page.keyboard.press('Space')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The settings were saved.').waitFor()
      expect(await isOn()).toBe(true)
      await press(page, 'Undo')
      await page.getByText('The earlier settings are back.').waitFor()
      expect(await isOn()).toBe(false)
    },
  },
  {
    name: 'switches one mail to customers off, and leaves the other settings as they are',
    run: async ({ page, go, seller }) => {
      const read = () => seller.api.call(getOrganization, { params: { id: seller.organization.id } })
      const before = await read()
      await go('/settings')
      await toggle(page, 'Before a renewal')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The settings were saved.').waitFor()
      const after = await read()
      expect(after.customer_email_settings).toEqual({ ...before.customer_email_settings, usage_threshold: true, subscription_renewal_reminder: false })
      expect(after.notification_settings).toEqual(before.notification_settings)
    },
  },
  {
    name: 'chooses the colour of the brand, and reads why a wrong one is refused',
    run: async ({ page, go, seller, broken }) => {
      await go('/settings')
      await enter(page, /^Color of buttons and links/, 'blue')
      await page.keyboard.press('Control+Enter')
      await page.getByText('Give the colour as # and six hexadecimal digits').waitFor()
      await enter(page, /^Color of buttons and links/, '#1f6feb')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The settings were saved.').waitFor()
      const { brand_settings } = await seller.api.call(getOrganization, { params: { id: seller.organization.id } })
      expect(brand_settings).toEqual({ accent_color: '#1f6feb', terms_url: null, privacy_url: null })
      // The browser logs the answer 422 itself.
      expect(broken.splice(0).filter((text) => !text.includes('422'))).toEqual([])
    },
  },
  {
    name: 'invites a colleague with a role, and withdraws the invitation',
    run: async ({ page, go, world, seller }) => {
      const open = async () =>
        (await seller.api.call(listInvitations, { params: { id: seller.organization.id }, query: { limit: 100 } })).items.filter(
          ({ status }) => status === 'pending',
        )
      await go('/settings')
      await press(page, 'People')
      await press(page, 'Invite a person')
      await enter(page, 'E-mail', 'cole@works.test')
      await tabTo(page, 'Role')
      await page.keyboard.type('Finance')
      await page.getByText('Changes no products and customers.').waitFor()
      await expectScreen(page, 'invite')
      await page.keyboard.press('Control+Enter')
      await page.getByText('An invitation was sent to cole@works.test.').waitFor()
      expect(await open()).toMatchObject([{ email: 'cole@works.test', role: 'finance' }])
      await eventually('the invitation is mailed', () => world.mail.next('cole@works.test'))
      await expectScreen(page, 'settings-invited')
      await press(page, 'Withdraw the invitation of cole@works.test')
      await page.getByText('The invitation was withdrawn.').waitFor()
      expect(await open()).toEqual([])
    },
  },
  {
    name: 'finds the access tokens by the palette, creates one that expires, and revokes it',
    run: async ({ page, go, world, seller }) => {
      const cookie = await world.signIn(seller.organization.owner)
      const shown = async () =>
        (await world.client({ cookie }).call(listOrganizationTokens, { query: { organization_id: [seller.organization.id], limit: 100 } })).items.filter(
          ({ comment }) => comment === 'Nightly report',
        )
      await go()
      await heading(page, 'Home')
      await page.keyboard.press('Control+k')
      await page.getByPlaceholder('Type a screen').waitFor()
      await page.keyboard.type('token')
      await page.getByRole('menuitem', { name: /access tokens/ }).waitFor()
      await page.keyboard.press('Enter')
      await heading(page, 'Settings')
      await press(page, 'New access token')
      await enter(page, 'What it is for', 'Nightly report')
      await tabTo(page, /^Expires/)
      await page.keyboard.type('After 30')
      await page.keyboard.press('Control+Enter')
      const dialog = page.getByRole('dialog', { name: 'Access token' })
      await dialog.waitFor()
      await press(page, 'Close')
      const [token] = await shown()
      const days = (Date.parse(token!.expires_at!) - world.clock.wall().getTime()) / 86_400_000
      expect([Math.round(days), token!.scopes.some((scope) => scope.endsWith(':write'))]).toEqual([30, false])
      await page.getByText('Reads only').first().waitFor()
      await expectScreen(page, 'settings-token')
      await press(page, 'Revoke the token Nightly report')
      await page.getByText('The token is rejected from the next request on.').waitFor()
      await press(page, 'Revoke')
      await page.getByText('The token was revoked.').waitFor()
      expect(await shown()).toEqual([])
    },
  },
]
