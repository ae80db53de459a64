import type { Frame } from '@bursar/views'
import { speak, textsIn } from '../../kit/index.ts'
import { type Part } from './fields.ts'
import { intervalOf, priceWords, taxNote } from './prices.ts'
import { texts } from './texts.ts'

type View = Pick<Part['view'], 'offer' | 'schedule'>

/** Returns the later charges in words: amount, interval, and the day of the first one. */
const stepsOf = (frame: Frame, { offer, schedule }: View): string[] => {
  const { money, date } = speak(frame)
  const words = textsIn(frame, texts)
  const { product, currency } = offer
  if (!product) return []
  return schedule.later.map(({ from, amount, plus_tax }) =>
    words.thenLine(`${money(amount, currency)}${plus_tax ? taxNote(frame, offer) : ''}`, intervalOf(frame, product), date(from)),
  )
}

const usageOf = (frame: Frame, { offer }: View): readonly string[] => (offer.product ? priceWords(frame, offer, offer.product).usage : [])

/** Returns what the buyer agrees to pay for a subscription: each amount that the discount or the trial leads to, and usage. */
export const agreement = (frame: Frame, view: View): string[] => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  if (!offer.product?.recurring_interval) return []
  const usage = usageOf(frame, view)
  const steps = stepsOf(frame, view)
  const today = schedule.today > 0 ? [words.today(money(schedule.today, offer.currency))] : []
  return [
    ...(steps.length > 0 ? [words.agree([...today, ...steps])] : []),
    ...(usage.length > 0 ? [(steps.length > 0 ? words.agreeAlso : words.agreeUsage)(usage.join('; '))] : []),
  ]
}

/**
 * Returns the parts of the text on the button that places the order. An order that costs money later, for example after a
 * trial, obliges the buyer to pay too. So only an order that never costs anything is called free.
 */
export const orderLabel = (frame: Frame, view: View): { readonly condition: 'paid' | 'usage' | 'free'; readonly amount: string } => {
  const { money, date } = speak(frame)
  const words = textsIn(frame, texts)
  const { offer, schedule } = view
  const [later] = schedule.later
  // An amount below the smallest charge is owed too.
  if (offer.trial_end === null && offer.total_amount > 0) return { condition: 'paid', amount: money(offer.total_amount, offer.currency) }
  if (later) {
    const price = `${money(later.amount, offer.currency)}${later.plus_tax ? taxNote(frame, offer) : ''}`
    return { condition: 'paid', amount: words.fromDate(price, date(later.from)) }
  }
  return { condition: usageOf(frame, view).length > 0 ? 'usage' : 'free', amount: '' }
}
