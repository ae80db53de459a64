import type { Locale } from '@bursar/views'
import type { en } from '../texts/en.ts'

/** The texts of each screen by language. They are loaded with the screen. */
const screens = {
  home: { en: () => import('../screens/home/en.ts'), de: () => import('../screens/home/de.ts') },
  orders: { en: () => import('../screens/orders/en.ts'), de: () => import('../screens/orders/de.ts') },
  sale: { en: () => import('../screens/orders/sale.en.ts'), de: () => import('../screens/orders/sale.de.ts') },
  customers: { en: () => import('../screens/customers/en.ts'), de: () => import('../screens/customers/de.ts') },
  products: { en: () => import('../screens/products/en.ts'), de: () => import('../screens/products/de.ts') },
  metrics: { en: () => import('../screens/metrics/en.ts'), de: () => import('../screens/metrics/de.ts') },
  settings: { en: () => import('../screens/settings/en.ts'), de: () => import('../screens/settings/de.ts') },
  webhooks: { en: () => import('../screens/webhooks/en.ts'), de: () => import('../screens/webhooks/de.ts') },
} as const
export type Texted = keyof typeof screens

/** The texts of the dashboard. English defines the keys, and a language that lacks one does not compile. */
export type Texts = typeof en & {
  readonly [S in Texted]: Awaited<ReturnType<(typeof screens)[S]['en']>> extends { readonly [K in S]: infer T } ? T : never
}

/** The texts in the reader's language: those of the kit, and those of the screens that were opened. */
export let t: Texts
let language: Locale

export const loadTexts = async (locale: Locale): Promise<void> => {
  language = locale
  t = (locale === 'de' ? (await import('../texts/de.ts')).de : (await import('../texts/en.ts')).en) as Texts
}

/** Loads the texts of screens, unless they are loaded. */
export const addTexts = async (names: readonly Texted[]): Promise<void> => {
  const loaded = await Promise.all(names.filter((name) => !(name in t)).map((name) => screens[name][language]()))
  t = Object.assign(t, ...loaded) as Texts
}
