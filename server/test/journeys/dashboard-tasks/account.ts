import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { enter, heading, press, tabTo } from '../../harness/keyboard.ts'
import type { Task } from './tasks.ts'

export const accountTasks: readonly Task[] = [
  {
    name: 'switches to another organization, and back to the last one by its address',
    run: async ({ page, go, world, seller }) => {
      const other = await world.organization({ owner: seller.organization.owner })
      await go('/orders')
      await heading(page, 'Orders')
      await press(page, /Choose an organization$/)
      await press(page, other.name)
      await page.waitForURL(`**/dashboard/${other.slug}`)
      await page.getByRole('heading', { name: 'First steps' }).waitFor()
      await page.goto(`${world.config.public_url.origin}/dashboard`)
      await page.waitForURL(`**/dashboard/${other.slug}`)
    },
  },
  {
    name: 'keeps a typed form when the session has ended, and sends it after the next sign-in',
    run: async ({ page, context, go, broken }) => {
      await go('/customers')
      await page.locator('tbody tr').first().waitFor()
      await press(page, 'New customer')
      await enter(page, /^E-mail/, 'late@people.test')
      const cookies = await context.cookies()
      await context.clearCookies()
      await page.keyboard.press('Control+Enter')
      await page.getByRole('dialog', { name: 'Sign in again' }).waitFor()
      expect(await page.getByRole('textbox', { name: 'E-mail' }).inputValue()).toBe('late@people.test')
      await expectScreen(page, 'lapsed')
      await context.addCookies(cookies)
      await press(page, 'I have signed in')
      await heading(page, 'late@people.test')
      // The browser logs the answer 401 itself.
      expect(broken.splice(0).filter((text) => !text.includes('401'))).toEqual([])
    },
  },
  {
    name: 'changes language and colours, and stays on the screen',
    run: async ({ page, go }) => {
      await go('/products')
      await heading(page, 'Products')
      await press(page, /^Your account: /)
      await tabTo(page, /^Language/)
      await page.keyboard.type('Deutsch')
      await tabTo(page, /^Colors/)
      await page.keyboard.press('End')
      await press(page, 'Apply')
      await heading(page, 'Produkte')
      expect(new URL(page.url()).pathname).toMatch(/\/products$/)
      await expectScreen(page, 'products-switched')
    },
  },
]
