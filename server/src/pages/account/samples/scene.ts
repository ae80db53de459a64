import {
  writeLabel,
  type Brand,
  type LabelParts,
  type Locale,
  type MailBenefit,
  type MailForecast,
  type MailKind,
  type MailOf,
  type MailPrice,
  type StoredLine,
} from '@bursar/views'

/** The places that the sample mails link: a seller's portal with one order, and our own pages. */
export interface SamplePlaces {
  readonly public_url: URL
  readonly auth_url: URL
  readonly slug: string
  readonly order_id: string
  readonly organization_id: string
}

/** A seller with a complete brand, and one that has set nothing. */
export const sampleSellers: { readonly branded: Brand; readonly plain: Brand } = {
  branded: {
    name: 'Acme Software',
    logo: null,
    accent: '#4f46e5',
    support_email: 'help@acme.example',
    website: 'https://www.acme.example/',
    terms_url: 'https://www.acme.example/terms',
    privacy_url: 'https://www.acme.example/privacy',
  },
  plain: { name: 'Acme Software', logo: null, accent: null, support_email: null, website: null, terms_url: null, privacy_url: null },
}

const words = {
  en: {
    plan: 'Team plan',
    book: 'The Billing Handbook',
    updates: 'Updates for a year',
    updatesNote: 'Updates come by e-mail. **Earlier editions** are in the [archive](https://acme.example/archive).',
    file: 'Handbook as a PDF',
    key: 'License key',
    discount: 'Early bird',
    meter: 'API requests',
  },
  de: {
    plan: 'Team-Tarif',
    book: 'Das Abrechnungshandbuch',
    updates: 'Aktualisierungen für ein Jahr',
    updatesNote: 'Neue Fassungen kommen per E-Mail. **Frühere Fassungen** finden Sie im [Archiv](https://acme.example/archive).',
    file: 'Handbuch als PDF',
    key: 'Lizenzschlüssel',
    discount: 'Frühbucher',
    meter: 'API-Anfragen',
  },
}

/** Samples of some kinds of mails. Each kind has at least one, and kinds with several forms have several. */
export type SamplesOf<K extends MailKind> = { readonly [One in K]: readonly [MailOf<One>, ...MailOf<One>[]] }

/** A line with the label that billing stores. */
const line = (parts: LabelParts, amount: number): StoredLine => ({
  label: writeLabel(parts),
  amount,
  proration: parts.type === 'remaining' || parts.type === 'taken_back' || parts.type === 'restored',
})

/** The data that several samples share. */
export const sceneOf = (locale: Locale, places: SamplePlaces) => {
  const w = words[locale]
  const currency = locale === 'de' ? 'eur' : 'usd'
  const portal = (path: string) => new URL(`/${places.slug}/portal${path}`, places.public_url).href
  const later = new Date('2026-12-18T09:30:00Z')
  const price: MailPrice = { amount: 10_000, currency, interval: 'month', interval_count: 1 }
  const benefits: MailBenefit[] = [
    { description: w.key, note: null, keys: ['ACME-3F2A9C41-77B0-4E1D-9A55-0C8D2E6B1F34'], files: [] },
    {
      description: w.file,
      note: null,
      keys: [],
      files: [
        { name: 'handbook-2026.pdf', url: portal(`/download?${new URLSearchParams({ id: places.organization_id, benefit: places.order_id }).toString()}`) },
      ],
    },
    { description: w.updates, note: w.updatesNote, keys: [], files: [] },
  ]
  const forecast: MailForecast = { at: later, amount: 10_000, currency, discount: null, tax_included: false, usage: [] }
  return {
    w,
    currency,
    line,
    portal,
    account: (path: string) => new URL(path, places.auth_url).href,
    order_url: portal(`/orders/${places.order_id}`),
    subscriptions: portal('/subscriptions'),
    card_url: portal('/billing?flow=payment_method'),
    picture: { name: w.book, url: new URL('/favicon.svg', places.public_url).href },
    date: new Date('2026-11-18T09:30:00Z'),
    later,
    price,
    benefits,
    forecast,
    usage: {
      unit: 'scalar',
      custom_label: null,
      custom_multiplier: null,
      unit_amount: '0.4',
      cap_amount: 5000,
      currency,
      interval: 'month',
      interval_count: 1,
    } as const,
    card: { brand: 'visa', last4: '4242' },
    customer: 'Northwind Traders',
    organization: 'Acme Software',
    is_german: locale === 'de',
  }
}
export type SampleScene = ReturnType<typeof sceneOf>
