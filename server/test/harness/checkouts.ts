import { createCheckout, createCustomField, createDiscount, createProduct, getCheckout, listOrders, listPayments } from '@bursar/contract'
import type { Page } from './browser.ts'
import type { World } from './world.ts'

type Given = Record<string, unknown>

/** A price per seat in US dollars. */
export const seatPrice = {
  amount_type: 'seat_based',
  price_currency: 'usd',
  seat_tiers: { seat_tier_type: 'graduated', tiers: [{ min_seats: 1, max_seats: null, price_per_seat: 1200 }] },
} as const

export const fixedPrice = (price_amount: number, more: Given = {}) => ({ amount_type: 'fixed', price_amount, price_currency: 'usd', ...more })

/** The custom fields of every type, with all their properties. */
const questions: readonly Given[] = [
  { type: 'text', slug: 'company', name: 'Team name', properties: { form_placeholder: 'Northwind', min_length: 2, max_length: 40 } },
  {
    type: 'text',
    slug: 'wishes',
    name: 'Wishes',
    properties: { textarea: true, form_help_text: 'We read every line.', form_placeholder: 'Write here' },
  },
  { type: 'number', slug: 'people', name: 'Number of people', properties: { ge: 2, le: 500, form_placeholder: '12' } },
  { type: 'date', slug: 'start', name: 'First day', properties: { ge: Date.UTC(2026, 0, 1) / 1000, le: Date.UTC(2030, 11, 31) / 1000 } },
  {
    type: 'select',
    slug: 'size',
    name: 'Shirt size',
    properties: {
      options: [
        { value: 'm', label: 'Medium' },
        { value: 'l', label: 'Large' },
      ],
    },
  },
  { type: 'checkbox', slug: 'letters', name: 'Send me your letters', properties: { form_help_text: 'Once a month.' } },
]

/** Opens a shop whose checkouts a test fills in. */
export const openCheckouts = async (world: World) => {
  const shop = await world.shop()
  const { api } = shop
  const product = (body: Given) => api.call(createProduct, { body: body as never })
  return {
    ...shop,
    product,
    checkout: (body: Given) => api.call(createCheckout, { body: body as never }),
    discount: (body: Given) => api.call(createDiscount, { body: body as never }),
    /** Creates a custom field of each type, for the product. */
    fields: async () => {
      const made = []
      for (const body of questions) made.push(await api.call(createCustomField, { body: body as never }))
      return made.map(({ id }) => ({ custom_field_id: id, required: false }))
    },
    ordersOf: async (id: string) => (await api.call(listOrders, { query: { checkout_id: [id] } })).items,
    paymentsOf: async (id: string) => (await api.call(listPayments, { query: { checkout_id: [id] } })).items,
    seen: (id: string) => api.call(getCheckout, { params: { id } }),
  }
}
export type Checkouts = Awaited<ReturnType<typeof openCheckouts>>

/** Returns the value of each field of the checkout form that the buyer fills in, by name. */
export const inputOf = async (page: Page): Promise<Record<string, string>> =>
  page.evaluate(`Object.fromEntries([...document.getElementById('checkout').elements].flatMap((field) => {
    if (!field.matches('input:not([type="hidden"]), select, textarea') || ['locale', 'theme'].includes(field.name)) return []
    if (field.type === 'radio') return field.checked ? [[field.name, field.value]] : []
    return [[field.name, field.type === 'checkbox' ? String(field.checked) : field.value]]
  }))`)

/** Fills in fields by name. Each value is text, an option, or a tick. */
export const fillIn = async (page: Page, values: Readonly<Record<string, string | boolean>>): Promise<void> => {
  for (const [name, value] of Object.entries(values)) {
    const field = page.locator(`[id="${name}"]`)
    if (typeof value === 'boolean') await field.setChecked(value)
    else if ((await page.locator(`select[id="${name}"]`).count()) === 1) await field.selectOption(value)
    else await field.fill(value)
  }
}

/** Runs an action that changes the price, and waits until the script has shown the answer. */
export const repriced = async (page: Page, act: () => Promise<unknown>): Promise<void> => {
  const swapped = page.evaluate(`new Promise((resolve) => document.addEventListener('swapped', () => resolve(), { once: true }))`)
  await act()
  await swapped
}

/** Returns the id of the focused element. */
export const focused = (page: Page): Promise<string> => page.evaluate('document.activeElement.id')
