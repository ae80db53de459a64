import type { Locator, Page } from 'playwright-core'

/** The words on the button that places an order which costs money, today or later. */
export const orderWords = { en: 'Order and pay', de: 'Zahlungspflichtig bestellen' } as const

/** Finds the button that places the order. With an amount, only a button that shows this amount. */
export const orderButton = (page: Page, amount?: string, locale: keyof typeof orderWords = 'en'): Locator =>
  page.getByRole('button', { name: amount === undefined ? new RegExp(`^${orderWords[locale]}`) : `${orderWords[locale]} ${amount}`, exact: true })

/** Finds the button that places an order which never costs anything. */
export const freeOrderButton = (page: Page): Locator => page.getByRole('button', { name: 'Order for free', exact: true })
