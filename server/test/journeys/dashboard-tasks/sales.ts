import { readFileSync } from 'node:fs'
import { getOrder, listOrders } from '@bursar/contract'
import { parse } from 'csv-parse/sync'
import { expect } from 'vitest'
import { expectScreen } from '../../harness/dashboards.ts'
import { enter, heading, keys, press, tabTo, toggle } from '../../harness/keyboard.ts'
import type { Page } from '../../harness/browser.ts'
import type { Task } from './tasks.ts'

const firstRow = (page: Page) => page.locator('tbody tr').first()

export const saleTasks: readonly Task[] = [
  {
    name: 'finds an order by the e-mail address of its customer',
    run: async ({ page, go }) => {
      await go('/orders')
      await firstRow(page).waitFor()
      await page.keyboard.press('/')
      await page.keyboard.type('chiara@people.test')
      await page.keyboard.press('Enter')
      await page.getByText('2 rows', { exact: true }).waitFor()
      expect(new URL(page.url()).searchParams.get('email')).toBe('chiara@people.test')
      await keys(page, 'Escape', 'j', 'Enter')
      await heading(page, /^Order HW-/)
      await page.locator('aside').getByRole('link', { name: 'Chiara Romano' }).waitFor()
    },
  },
  {
    name: 'shows the consequences of a refund before it is made, and refunds exactly that part of the order',
    run: async ({ page, go, seller }) => {
      await go(`/orders/${seller.order_id}`)
      await heading(page, /^Order /)
      await press(page, 'Refund')
      const dialog = page.getByRole('dialog', { name: 'Refund this order' })
      await dialog.getByRole('button', { name: 'Refund $50.00' }).waitFor()
      await enter(page, 'Amount without tax', '20')
      await page.keyboard.press('Tab')
      await dialog.getByRole('button', { name: 'Refund $20.00' }).waitFor()
      const shown = await dialog.getByRole('region', { name: 'What will happen' }).innerText()
      expect(shown).toContain('The customer gets back\n$20.00')
      expect(shown).toContain('Can still be refunded afterwards\n$30.00')
      expect((await seller.api.call(getOrder, { params: { id: seller.order_id } })).refunded_amount).toBe(0)
      await expectScreen(page, 'refund')
      await press(page, 'Refund $20.00')
      await page.getByText('The refund was created.').waitFor()
      const order = await seller.api.call(getOrder, { params: { id: seller.order_id } })
      expect([order.refunded_amount, order.status]).toEqual([2000, 'partially_refunded'])
      await page.getByText('Posted: refund paid').waitFor()
    },
  },
  {
    name: 'exports the filtered orders, with the number of rows known before',
    run: async ({ page, go, seller }) => {
      await go('/orders?status=paid')
      await firstRow(page).waitFor()
      await press(page, 'Export')
      const wanted = (await seller.api.call(listOrders, { query: { status: ['paid'], limit: 1 } })).pagination.total_count
      const dialog = page.getByRole('dialog', { name: 'Export orders' })
      await dialog.getByText(`${wanted} orders with the filters`).waitFor()
      const saved = page.waitForEvent('download')
      await press(page, 'Export')
      const file = await saved
      const rows = parse(readFileSync(await file.path(), 'utf8'), { columns: true, bom: true })
      expect(rows.length).toBe(wanted)
      await dialog.getByText('.csv').last().waitFor()
      await expectScreen(page, 'export')
    },
  },
  {
    name: 'filters orders, saves the filter as a view, and finds the view again after a reload',
    run: async ({ page, go }) => {
      await go('/orders')
      await firstRow(page).waitFor()
      await press(page, 'Status')
      await toggle(page, 'Unpaid')
      await toggle(page, 'Refunded')
      await page.keyboard.press('Escape')
      await page.getByText('3 rows', { exact: true }).waitFor()
      await press(page, 'Save view')
      await page.getByRole('textbox', { name: 'Name of the view' }).waitFor()
      await page.keyboard.type('To check')
      await page.keyboard.press('Enter')
      await page.getByRole('button', { name: 'To check', exact: true }).waitFor()
      await expectScreen(page, 'orders-view')
      await press(page, 'All')
      await page.getByText('13 rows', { exact: true }).waitFor()
      await page.reload()
      await firstRow(page).waitFor()
      await press(page, 'To check')
      await page.getByText('3 rows', { exact: true }).waitFor()
      expect(new URL(page.url()).searchParams.getAll('status').toSorted()).toEqual(['pending', 'refunded'])
      await press(page, 'Forget the view To check')
      await page.getByRole('button', { name: 'To check', exact: true }).waitFor({ state: 'detached' })
    },
  },
  {
    name: 'sorts orders by their amount, and hides a column',
    run: async ({ page, go }) => {
      await go('/orders')
      await firstRow(page).waitFor()
      const amounts = async () => (await page.locator('tbody td.amount').allInnerTexts()).map((text) => Number(text.replaceAll(/[^\d.]/g, '')))
      await press(page, 'Amount')
      await page.locator('th[aria-sort=descending]', { hasText: 'Amount' }).waitFor()
      await expect.poll(async () => (await amounts()).join()).toBe((await amounts()).toSorted((one, other) => other - one).join())
      await press(page, 'Columns')
      await toggle(page, 'Number')
      await page.keyboard.press('Escape')
      await page.getByRole('columnheader', { name: 'Number' }).waitFor({ state: 'detached' })
      expect(new URL(page.url()).search).toBe('?sort=-amount&hide=number')
    },
  },
  {
    name: 'reads the ledger postings of an order',
    run: async ({ page, go, seller }) => {
      await go(`/orders/${seller.order_id}`)
      await page.locator('.timeline li').first().waitFor()
      await tabTo(page, /^\$\d/)
      await page.keyboard.press('Enter')
      const sum = page.locator('details[open] .postings .sum')
      await sum.waitFor()
      expect(await sum.innerText()).toContain('$0.00')
    },
  },
  {
    name: 'saves the receipt and the invoice of an order as PDF, and reads who requested them',
    run: async ({ page, go, seller }) => {
      await go(`/orders/${seller.order_id}`)
      await page.locator('.timeline li').first().waitFor()
      for (const paper of [/^Save Receipt .* as PDF$/, /^Save Invoice .* as PDF$/]) {
        const saved = page.waitForEvent('download')
        await press(page, paper)
        const file = await saved
        expect(file.suggestedFilename()).toMatch(/\.pdf$/)
        expect(readFileSync(await file.path(), 'latin1').slice(0, 5)).toBe('%PDF-')
      }
      const request = page.locator('.timeline li', { hasText: 'Invoice requested' })
      await request.getByText('by a person of your organization').waitFor()
      await page.getByText('Checkout confirmed').first().waitFor()
      await page.getByText('Mail: receipt').waitFor()
      await page.getByText('$50.00 · Card').waitFor()
    },
  },
  {
    name: 'reads only the money of an order, and finds the same after a reload',
    run: async ({ page, go, seller }) => {
      await go(`/orders/${seller.order_id}`)
      await page.getByText('Event order.paid').first().waitFor()
      await press(page, 'Money only')
      await page.getByText('Event order.paid').first().waitFor({ state: 'detached' })
      await page.getByText('Posted: payment received').waitFor()
      await page.reload()
      await page.getByText('Posted: payment received').waitFor()
      expect(await page.getByText('Event order.paid').count()).toBe(0)
      await expectScreen(page, 'order-money')
      await press(page, 'Everything')
      await page.getByText('Event order.paid').first().waitFor()
    },
  },
  {
    name: 'reads the code of a screen in each language, and runs it',
    run: async ({ page, go, world, seller }) => {
      await go('/orders?status=paid')
      await firstRow(page).waitFor()
      await page.keyboard.press('c')
      const dialog = page.getByRole('dialog', { name: 'As code' })
      await dialog.getByText('Authorization: Bearer $BURSAR_TOKEN').waitFor()
      await press(page, 'CLI')
      await dialog.getByText(/bursar api GET '\/v1\/orders\/\?status=paid/).waitFor()
      await expectScreen(page, 'as-code-cli')
      await press(page, 'TypeScript')
      await dialog.getByText('process.env.BURSAR_TOKEN').waitFor()
      await press(page, 'Show the answer as JSON')
      await dialog.getByText('"pagination"').waitFor()
      const text = await dialog.locator('pre').first().innerText()
      // The shown code runs as it is, with a token of the organization.
      const token = (await seller.organization.token()).secret.reveal()
      const address = /fetch\('([^']+)'/.exec(text)![1]!
      const { pathname, search } = new URL(address)
      const answer = await fetch(`http://127.0.0.1:${world.port}${pathname}${search}`, { headers: { authorization: `Bearer ${token}` } })
      expect(answer.status).toBe(200)
      await page.keyboard.press('Escape')
      await dialog.waitFor({ state: 'detached' })
    },
  },
]
