import { getProduct, listCheckoutLinks, listProducts, updateOrganization } from '@bursar/contract'
import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { enter, heading, jump, press, tabTo } from '../../harness/keyboard.ts'
import { eventually } from '../../harness/world.ts'
import type { Task, TaskContext } from './tasks.ts'

/** Finds the product that the first task has created. */
const tour = async ({ seller }: TaskContext) => {
  const { items } = await seller.api.call(listProducts, { query: { query: 'Harbour tour' } })
  return items[0]!
}

export const productTasks: readonly Task[] = [
  {
    name: 'creates a product with three fields, while the preview follows',
    run: async ({ page, go, seller }) => {
      await go()
      await heading(page, 'Home')
      await jump(page, 'p', 'Products')
      await press(page, 'New product')
      await heading(page, 'New product')
      await tabTo(page, 'Name')
      await page.keyboard.type('Harbour tour')
      await enter(page, 'Price', '24.50')
      await tabTo(page, 'Billing period')
      await page.keyboard.type('Every y')
      const preview = page.getByRole('region', { name: 'Preview of the checkout' })
      await preview.getByText('Then $24.50 a year').waitFor()
      expect(await preview.innerText()).toContain('Harbour tour')
      await page.keyboard.press('Control+Enter')
      await heading(page, 'Harbour tour')
      const { items } = await seller.api.call(listProducts, { query: { query: 'Harbour tour' } })
      expect(items.map(({ recurring_interval, prices: [price] }) => [recurring_interval, price])).toEqual([
        ['year', expect.objectContaining({ amount_type: 'fixed', price_amount: 2450, price_currency: 'usd' })],
      ])
    },
  },
  {
    name: 'offers the currency of the organization for a new product',
    run: async ({ page, world }) => {
      const euro = await world.shop()
      await euro.api.call(updateOrganization, { params: { id: euro.organization.id }, body: { default_presentment_currency: 'eur' } })
      const cookie = await world.signIn(euro.organization.owner)
      await page.context().addCookies([{ name: cookie.split('=')[0]!, value: cookie.slice(cookie.indexOf('=') + 1), url: world.config.public_url.origin }])
      await page.goto(`${world.config.public_url.origin}/dashboard/${euro.organization.slug}/products/new`)
      await enter(page, 'Name', 'Stadtrundgang')
      await page.getByRole('region', { name: 'Preview of the checkout' }).getByText('Then €9.00 a month').waitFor()
      await page.keyboard.press('Control+Enter')
      await heading(page, 'Stadtrundgang')
      const { items } = await euro.api.call(listProducts, { query: {} })
      expect(items[0]!.prices).toMatchObject([{ price_amount: 900, price_currency: 'eur' }])
    },
  },
  {
    name: 'creates a checkout link and copies it',
    run: async (task) => {
      const { page, context, go, seller } = task
      await context.grantPermissions(['clipboard-read', 'clipboard-write'])
      const { id } = await tour(task)
      await go(`/products/${id}`)
      await press(page, 'Create a checkout link')
      await page.getByRole('button', { name: 'Copy the checkout link' }).waitFor()
      await press(page, 'Copy the checkout link')
      await page.getByRole('button', { name: 'Copied' }).waitFor()
      const { items } = await seller.api.call(listCheckoutLinks, { query: { product_id: [id] } })
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(items[0]!.url)
    },
  },
  {
    name: 'renames a product',
    run: async (task) => {
      const { page, go, seller } = task
      const { id } = await tour(task)
      await go(`/products/${id}`)
      await enter(page, 'Name', 'Harbour tour by night')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The product was saved.').waitFor()
      expect((await seller.api.call(getProduct, { params: { id } })).name).toBe('Harbour tour by night')
      await heading(page, 'Harbour tour by night')
    },
  },
  {
    name: 'changes a price, after the number of running subscriptions was shown',
    run: async (task) => {
      const { page, go, seller } = task
      const { id } = await tour(task)
      await go(`/products/${id}`)
      await press(page, 'Change the price')
      const dialog = page.getByRole('dialog', { name: 'Change the price' })
      await dialog.getByText('0 running subscriptions keep the price').waitFor()
      await dialog.getByLabel('New price').waitFor()
      await enter(page, 'New price', '30')
      await expectScreen(page, 'new-price')
      await page.keyboard.press('Control+Enter')
      await page.getByText('The price was changed.').waitFor()
      const { prices } = await seller.api.call(getProduct, { params: { id } })
      expect(prices.filter(({ is_archived }) => !is_archived)).toMatchObject([{ price_amount: 3000 }])
    },
  },
  {
    name: 'archives a product, and takes it back by one key',
    run: async (task) => {
      const { page, go, seller } = task
      const { id } = await tour(task)
      const isArchived = async () => (await seller.api.call(getProduct, { params: { id } })).is_archived
      await go(`/products/${id}`)
      await press(page, 'Archive')
      const dialog = page.getByRole('dialog', { name: 'Archive' })
      await dialog.getByText('It is no longer for sale.').waitFor()
      await expectScreen(page, 'archive')
      await press(page, 'Cancel')
      await dialog.waitFor({ state: 'detached' })
      // The focus is back at the button that has opened the dialog.
      await page.keyboard.press('Enter')
      await dialog.waitFor()
      await press(page, 'Archive')
      await page.getByText('The product was archived.').waitFor()
      expect(await isArchived()).toBe(true)
      await page.keyboard.press('z')
      await eventually('the product is on sale again', async () => !(await isArchived()))
      await page.getByRole('button', { name: 'Archive' }).waitFor()
    },
  },
]
