import { accentOf, readLabel, showParts } from '@bursar/views'
import type { Language } from '../../../../kernel/languages.ts'
import { formatAmount, sum } from '../../../../kernel/money.ts'
import { mainReason } from '../../../../kernel/taxes.ts'
import type { Pair, Sheet, Table } from '../../../../kernel/layout.ts'
import { tierAmount } from '../../calc/prices.ts'
import type { Facts, Line, Place } from './facts.ts'
import { isEuropean, words, type Words } from './words.ts'

/** Lays out a document in its language. All amounts are exactly those of the order. `logo` is the copy that the facts name. */
export const sheetOf = (facts: Facts, logo: Buffer | null): Sheet => {
  const say = speak(facts)
  const { seller, order } = facts
  const name = { invoice: order.total_amount < 0 ? say.text.credit_note : say.text.invoice, receipt: say.text.receipt, credit_note: say.text.credit_note }[
    facts.kind
  ]
  const number = { invoice: order.invoice_number, receipt: order.receipt_number, credit_note: facts.refunds[0]?.number }[facts.kind] ?? ''
  return {
    language: facts.language,
    title: `${name} ${number}`,
    author: seller.name,
    dated: new Date(facts.kind === 'credit_note' ? facts.refunds[0]!.created_at : order.created_at),
    accent: seller.accent ? accentOf(seller.accent, 'light').fill : null,
    logo,
    heading: name,
    facts: headFacts(facts, say),
    parties: [
      {
        label: say.text.from,
        lines: [seller.name, ...addressOf(seller.address, facts.language), ...taxIdOf(seller.tax_id, isVat(seller), say), ...present(seller.email)],
      },
      {
        label: say.text.to,
        lines: [
          ...present(facts.buyer.name),
          ...addressOf(facts.buyer.address, facts.language),
          ...taxIdOf(facts.buyer.tax_id, facts.buyer.tax_id_format === 'eu_vat' || facts.buyer.tax_id_format === 'gb_vat', say),
        ],
      },
    ],
    notice: noticeOf(facts, say),
    ...(facts.kind === 'credit_note' ? refundBody(facts, say) : orderBody(facts, say)),
    notes: notesOf(facts, say),
    footer: [seller.name, seller.footer].filter((part) => part !== null).join(' · '),
    links: linksOf(facts, say),
    paging: say.text.paging,
  }
}

/** The links of the brand. The head of the document already has the billing address of the seller. */
const linksOf = ({ seller: { email, support_email, website, terms_url, privacy_url } }: Facts, { text }: Speech): Sheet['links'] => [
  ...(support_email != null && support_email !== email ? [{ text: support_email, url: `mailto:${support_email}` }] : []),
  ...(website == null ? [] : [{ text: URL.canParse(website) ? new URL(website).host.replace(/^www\./, '') : website, url: website }]),
  ...(terms_url == null ? [] : [{ text: text.terms, url: terms_url }]),
  ...(privacy_url == null ? [] : [{ text: text.privacy, url: privacy_url }]),
]

interface Speech {
  readonly language: Language
  readonly text: Words
  readonly money: (amount: number) => string
  readonly day: (at: string | Date) => string
  readonly percent: (partsPerMillion: number) => string
  readonly taxName: (jurisdiction: string | null) => string
  readonly method: string | null
}

const speak = ({ language, order, payment }: Facts): Speech => {
  const text = words[language]
  const days = new Intl.DateTimeFormat(text.days, { dateStyle: 'long', timeZone: 'UTC' })
  const percents = new Intl.NumberFormat(text.locale, { style: 'percent', maximumFractionDigits: 4 })
  const brand = payment?.brand ?? null
  return {
    language,
    text,
    money: (amount) => moneyIn(text.locale, amount, order.currency),
    day: (at) => days.format(new Date(at)),
    percent: (rate) => percents.format(rate / 1_000_000),
    taxName: (jurisdiction) => (jurisdiction !== null && isEuropean(jurisdiction) ? text.vat : text.tax),
    method:
      payment?.last4 == null
        ? null
        : text.card(brand === null || brand === 'unknown' ? text.some_card : brand.charAt(0).toUpperCase() + brand.slice(1), payment.last4),
  }
}

/**
 * Formats an amount with the decimal places of its currency. Formats the exact decimal string, so that no amount is
 * converted to a float.
 */
const moneyIn = (locale: string, amount: number, currency: string): string => {
  const exact = formatAmount(amount, currency)
  const digits = exact.split('.')[1]?.length ?? 0
  const format = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency: currency.toUpperCase(),
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  })
  return format.format(exact as Intl.StringNumericLiteral).replaceAll('\u202f', '\u00a0')
}

const headFacts = ({ kind, order, payment, refunds }: Facts, { text, day, method }: Speech): Pair[] => {
  const numbers: Record<Facts['kind'], Pair[]> = {
    invoice: [{ label: order.total_amount < 0 ? text.credit_note_number : text.invoice_number, value: order.invoice_number }],
    receipt: [
      { label: text.receipt_number, value: order.receipt_number ?? '' },
      { label: text.invoice_number, value: order.invoice_number },
    ],
    credit_note: [
      { label: text.credit_note_number, value: refunds[0]?.number ?? '' },
      { label: text.for_invoice, value: order.invoice_number },
    ],
  }
  const last = (at: string) => new Date(new Date(at).getTime() - 1)
  return [
    ...numbers[kind],
    kind === 'credit_note' ? { label: text.date, value: day(refunds[0]!.created_at) } : { label: text.issued, value: day(issuedAt(order, payment)) },
    ...(payment && kind !== 'credit_note' ? [{ label: text.paid, value: day(payment.paid_at) }] : []),
    order.period
      ? { label: text.period, value: `${day(order.period.start)} – ${day(last(order.period.end))}` }
      : { label: text.supplied, value: day(issuedAt(order, payment)) },
    ...(method !== null && kind !== 'credit_note' ? [{ label: text.paid_with, value: method }] : []),
  ]
}

/**
 * The date of the document: the time of the payment, or the creation of an order without a payment. An order that was a
 * draft or pending for some time has the date of its payment.
 */
const issuedAt = (order: Facts['order'], payment: Facts['payment']) => payment?.paid_at ?? order.created_at

const noticeOf = ({ kind, order, payment, refunds }: Facts, { text, money, day }: Speech): string => {
  if (kind === 'credit_note') return text.given_back(money(refunds[0]!.amount + refunds[0]!.tax_amount), day(refunds[0]!.created_at))
  if (order.total_amount < 0) return text.credited(money(-order.total_amount))
  return payment ? text.paid_on(money(chargedBy(order)), day(payment.paid_at)) : text.settled(money(order.total_amount))
}

const chargedBy = ({ due_amount, carried_amount }: Facts['order']): number => due_amount - carried_amount

const orderBody = (facts: Facts, say: Speech): Pick<Sheet, 'lines' | 'totals' | 'tables'> => {
  const { order, refunds } = facts
  const { text, money } = say
  const jurisdiction = facts.lines.find(({ tax }) => tax)?.tax?.jurisdiction ?? null
  const taxed =
    order.tax_behavior === null
      ? []
      : [{ label: order.tax_behavior === 'inclusive' ? text.included(say.taxName(jurisdiction)) : say.taxName(jurisdiction), value: money(order.tax_amount) }]
  const back = sum(refunds.map(({ amount, tax_amount }) => amount + tax_amount))
  const applied = order.applied_balance_amount
  return {
    lines: lineTable(facts, say),
    totals: [
      { label: text.subtotal, value: money(order.subtotal_amount) },
      ...(order.discount_amount === 0
        ? []
        : [{ label: order.discount_name === null ? text.discount : `${text.discount} (${order.discount_name})`, value: money(-order.discount_amount) }]),
      ...(order.tax_behavior === 'exclusive' ? [{ label: text.without_tax, value: money(order.net_amount) }, ...taxed] : []),
      { label: `${text.total} (${order.currency.toUpperCase()})`, value: money(order.total_amount), strong: true },
      ...(order.tax_behavior === 'inclusive' && order.tax_amount !== 0 ? taxed : []),
      ...(order.total_amount >= 0 && applied < 0 ? [{ label: text.from_balance, value: money(applied) }] : []),
      ...(order.total_amount >= 0 && applied > 0 ? [{ label: text.owed_before, value: money(applied) }] : []),
      ...(order.total_amount < 0 ? [{ label: text.to_balance, value: money(-order.total_amount) }] : []),
      ...(order.carried_amount === 0 ? [] : [{ label: text.carried, value: money(-order.carried_amount) }]),
      ...(facts.kind === 'receipt' || chargedBy(order) !== order.total_amount ? [{ label: text.charged, value: money(chargedBy(order)), strong: true }] : []),
      ...(back === 0
        ? []
        : [
            { label: text.refunded, value: money(-back) },
            { label: text.kept, value: money(chargedBy(order) - back), strong: true },
          ]),
    ],
    tables: [...taxTable(facts, say), ...refundTable(facts, say)],
  }
}

const lineTable = ({ lines }: Facts, say: Speech): Table => {
  const { text, money } = say
  const right = 'right' as const
  return {
    columns: [
      { label: text.item, align: 'left', share: 46 },
      { label: text.quantity, align: right, share: 13 },
      { label: text.unit, align: right, share: 16 },
      { label: text.tax, align: right, share: 10 },
      { label: text.amount, align: right, share: 17 },
    ],
    rows: lines.map((line) => {
      const { what, seats, credit } = readLine(line, say)
      const tiers = line.tiers !== null && seats !== null && !line.proration ? tiersOf(line.tiers, seats, line.amount) : []
      const unit = seats === null ? money(line.amount) : tiers.length === 1 ? money(tiers[0]!.price) : ''
      return {
        cells: [what, seats === null ? '1' : text.seats(seats), line.proration ? '' : unit, rateOf(line, say), money(line.amount)],
        below: [
          ...(tiers.length > 1 ? tiers.map(({ from, to, price }) => text.tier(from, to, money(price))) : []),
          ...(line.amount < 0 && !credit ? [text.credit] : []),
          ...(line.proration && line.amount >= 0 ? [text.part] : []),
          ...(line.discount_amount !== 0 && lines.length > 1 ? [text.discounted(money(-line.discount_amount))] : []),
        ],
      }
    }),
  }
}

/**
 * Returns the text of a line in the language of the document, the number of seats for the column of quantities, and
 * whether the line is a credit. A line of a price without tiers has no seats.
 */
const readLine = (line: Line, { text, language }: Speech): { what: string; seats: number | null; credit: boolean } => {
  const parts = readLabel(line, line.tiers !== null)
  if (parts.type === 'product') return { what: parts.name, seats: parts.seats, credit: false }
  if (parts.type === 'remaining') return { what: text.remaining(parts.name), seats: parts.seats, credit: true }
  return { what: showParts(language, parts), seats: null, credit: parts.type === 'restored' }
}

/**
 * Returns the seat range and the price of each tier. Returns an empty list if the current tiers do not result in the
 * billed amount.
 */
const tiersOf = (tiers: NonNullable<Line['tiers']>, seats: number, amount: number): { from: number; to: number; price: number }[] => {
  const first = tiers.tiers[0]?.min_seats ?? Infinity
  const last = tiers.tiers.at(-1)?.max_seats ?? Infinity
  if (seats < first || seats > last || tierAmount(tiers, seats) !== amount) return []
  if (tiers.seat_tier_type === 'volume') {
    const tier = tiers.tiers.find(({ max_seats }) => seats <= (max_seats ?? Infinity))!
    return [{ from: 1, to: seats, price: tier.price_per_seat }]
  }
  let counted = 0
  return tiers.tiers.flatMap(({ max_seats, price_per_seat: price }) => {
    const from = counted + 1
    counted = Math.min(seats, max_seats ?? Infinity)
    return from > counted ? [] : [{ from, to: counted, price }]
  })
}

const rateOf = ({ tax }: Line, { percent }: Speech): string => (tax === null || tax.reason === 'not_collecting' ? '–' : percent(tax.rate))

/** Returns the table of taxes by rate, if any tax was collected. */
const taxTable = ({ lines }: Facts, say: Speech): Sheet['tables'][number][] => {
  const { text, money, percent, taxName } = say
  const levied = Map.groupBy(
    lines.filter(({ tax }) => tax !== null && tax.reason !== 'not_collecting'),
    ({ tax }) => `${tax!.rate} ${tax!.jurisdiction}`,
  )
  if (levied.size === 0) return []
  return [
    {
      heading: text.taxes,
      columns: [
        { label: text.tax, align: 'left', share: 40 },
        { label: text.net, align: 'right', share: 20 },
        { label: text.tax, align: 'right', share: 20 },
        { label: text.gross, align: 'right', share: 20 },
      ],
      rows: [...levied.values()].map((some) => {
        const { rate, jurisdiction } = some[0]!.tax!
        const [net, tax] = [sum(some.map(({ net_amount }) => net_amount)), sum(some.map(({ tax_amount }) => tax_amount))]
        return { cells: [`${taxName(jurisdiction)} ${percent(rate)} (${jurisdiction})`, money(net), money(tax), money(net + tax)] }
      }),
    },
  ]
}

const refundTable = ({ refunds }: Facts, { text, money, day }: Speech): Sheet['tables'][number][] =>
  refunds.length === 0
    ? []
    : [
        {
          heading: text.refunds,
          columns: [
            { label: text.date, align: 'left', share: 26 },
            { label: text.number, align: 'left', share: 40 },
            { label: text.amount, align: 'right', share: 20 },
          ],
          rows: refunds.map(({ created_at, number, amount, tax_amount }) => ({ cells: [day(created_at), number ?? '', money(-(amount + tax_amount))] })),
        },
      ]

const refundBody = (facts: Facts, say: Speech): Pick<Sheet, 'lines' | 'totals' | 'tables'> => {
  const { text, money } = say
  const { amount, tax_amount, reason } = facts.refunds[0]!
  const rates = new Set(facts.lines.map((line) => rateOf(line, say)))
  const jurisdiction = facts.lines.find(({ tax }) => tax)?.tax?.jurisdiction ?? null
  return {
    lines: {
      columns: [
        { label: text.item, align: 'left', share: 60 },
        { label: text.tax, align: 'right', share: 15 },
        { label: text.net, align: 'right', share: 25 },
      ],
      // If several tax rates apply, the line shows none. The totals list all of them.
      rows: [{ cells: [text.refund_of(facts.order.description), rates.size === 1 ? [...rates][0]! : '', money(-amount)], below: [text.reasons[reason]] }],
    },
    totals: [
      { label: text.without_tax, value: money(-amount) },
      { label: say.taxName(jurisdiction), value: money(-tax_amount) },
      { label: `${text.total} (${facts.order.currency.toUpperCase()})`, value: money(-(amount + tax_amount)), strong: true },
    ],
    tables: [],
  }
}

const notesOf = ({ kind, lines, order, payment }: Facts, { text, day, method }: Speech): string[] => {
  const isReversed = mainReason(lines.flatMap(({ tax }) => (tax ? [tax.reason] : []))) === 'reverse_charge'
  return [
    ...(kind === 'credit_note' ? [text.corrects(order.invoice_number, day(issuedAt(order, payment))), ...(method === null ? [] : [text.went_to(method)])] : []),
    ...(isReversed ? [text.reversed] : []),
    ...(!isReversed && order.tax_amount === 0 ? [text.untaxed] : []),
  ]
}

const present = (line: string | null): string[] => (line === null || line === '' ? [] : [line])
const isVat = ({ tax_id, address }: Facts['seller']): boolean => tax_id !== null && address !== null && isEuropean(address.country) && /^[A-Z]{2}/.test(tax_id)
const taxIdOf = (value: string | null, vat: boolean, { text }: Speech): string[] => (value === null ? [] : [`${vat ? text.vat_id : text.tax_id}: ${value}`])

/** Formats an address by local custom: the postal code before the city, or after it in countries with states. */
const addressOf = (place: Place | null, language: Language): string[] => {
  if (place === null) return []
  const { line1, line2, postal_code, city, state, country } = place
  const part = state?.replace(/^[A-Z]{2}-/, '') ?? null
  const joined = (separator: string, ...parts: readonly (string | null)[]) => parts.filter((one) => one !== null && one !== '').join(separator)
  const town = ['US', 'CA', 'AU'].includes(country) ? joined(' ', joined(', ', city, part), postal_code) : joined(' ', postal_code, joined(', ', city, part))
  return [...present(line1), ...present(line2), ...present(town), new Intl.DisplayNames([language], { type: 'region' }).of(country) ?? country]
}
