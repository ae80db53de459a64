import { openChance, type Chance } from '../years/stories.ts'
import { discounts, hasSeats, productNames, type DiscountName, type PlaceName, type ProductName } from './catalogue.ts'

export type Surface = 'organization' | 'portal'
export type Behavior = 'prorate' | 'invoice' | 'next_period'
/** Payment methods that a customer can use: a description, and the token of the test card. */
export const cards = {
  'a card': 'tok_visa',
  'a bank debit': 'tok_processing',
  'a card that is declined later': 'tok_declined_later',
  'a card that recovers after two declines': 'tok_recovers_later',
  'a card whose refunds take time': 'tok_refund_pending',
  nothing: null,
} as const
export type CardName = keyof typeof cards

export type Step =
  | {
      readonly kind: 'buy'
      readonly product: ProductName
      readonly seats: number | null
      readonly card: CardName
      readonly trialDays: number | null
      readonly discount: DiscountName | null
    }
  | { readonly kind: 'plan'; readonly surface: Surface; readonly product: ProductName; readonly behavior: Behavior | null }
  | { readonly kind: 'seats'; readonly surface: Surface; readonly seats: number; readonly behavior: Behavior | null }
  /** `order` is a position among the orders that can be refunded or disputed, where 0 is the latest. */
  | { readonly kind: 'refund'; readonly order: number; readonly percent: number }
  | { readonly kind: 'dispute'; readonly order: number; readonly status: 'needs_response' | 'under_review' }
  | { readonly kind: 'win' }
  | { readonly kind: 'lose'; readonly how: 'bank' | 'accepted' }
  | { readonly kind: 'cancel'; readonly surface: Surface; readonly atOnce: boolean }
  | { readonly kind: 'uncancel'; readonly surface: Surface }
  | { readonly kind: 'renew' }
  /** Advances the test clock within the period. `percent` is a share of the time that is left. */
  | { readonly kind: 'wait'; readonly percent: number }
  | { readonly kind: 'add card'; readonly card: CardName }
  | { readonly kind: 'remove card' }
  /** The processor settles pending debits and refunds. */
  | { readonly kind: 'settle' }

export interface Sequence {
  readonly place: PlaceName
  /** The default proration behaviour of the organization. */
  readonly behavior: Behavior
  readonly steps: readonly Step[]
}

/** The state in which the generator assumes the customer to be, so that most steps are possible. The real state may differ. */
interface Belief {
  readonly product: ProductName | null
  readonly seats: number | null
  readonly card: CardName
  readonly canceling: boolean
  readonly disputed: boolean
  /** True if money was paid for the current period. */
  readonly paid: boolean
  /** True if money for the current period was refunded, or is disputed or pending for a refund. */
  readonly tainted: boolean
}

const weighted = <T>(chance: Chance, options: readonly (readonly [weight: number, value: T])[]): T => {
  let at = chance.next() * options.reduce((sum, [weight]) => sum + weight, 0)
  for (const [weight, value] of options) if ((at -= weight) < 0) return value
  return options.at(-1)![1]
}

/** Returns the sequence with this number. It depends on the seed alone, not on the server's answers. */
export const generate = (seed: number, number: number): Sequence => {
  const chance = openChance(seed * 1_000_003 + number * 7919)
  const place = weighted<PlaceName>(chance, [[4, 'DE'], [4, 'US-NY'], [2, 'GB']]) // oxfmt-ignore
  const behavior = weighted<Behavior>(chance, [[5, 'prorate'], [4, 'invoice'], [1, 'next_period']]) // oxfmt-ignore
  let belief: Belief = { product: null, seats: null, card: 'nothing', canceling: false, disputed: false, paid: false, tainted: false }
  const steps: Step[] = []
  const length = chance.between(7, 13)
  while (steps.length < length) {
    const step = choose(chance, belief)
    steps.push(step)
    belief = believe(belief, step)
  }
  return { place, behavior, steps }
}

const choose = (chance: Chance, belief: Belief): Step => {
  const { product } = belief
  if (product === null) return weighted(chance, [[12, buy(chance)], [1, { kind: 'renew' } as const]]) // oxfmt-ignore
  const options: (readonly [number, () => Step])[] = [
    [belief.tainted ? 16 : 8, () => changePlan(chance, belief)],
    [hasSeats(product) ? 14 : 0.2, () => changeSeats(chance, belief)],
    [belief.paid ? (belief.tainted ? 2 : 5) : 0.2, () => refund(chance)],
    [belief.paid && !belief.disputed ? 3.5 : 0.1, () => dispute(chance)],
    [belief.disputed ? 5 : 0, () => ({ kind: 'win' })],
    [belief.disputed ? 5 : 0, () => ({ kind: 'lose', how: chance.pick(['bank', 'accepted'] as const) })],
    [belief.canceling ? 0.2 : 1.5, () => ({ kind: 'cancel', surface: surface(chance), atOnce: chance.next() < 0.3 })],
    [belief.canceling ? 5 : 0.1, () => ({ kind: 'uncancel', surface: surface(chance) })],
    [4, () => ({ kind: 'renew' })],
    [5, () => ({ kind: 'wait', percent: chance.pick([1, 5, 10, 25, 50, 90]) })],
    [belief.card === 'nothing' ? 2.5 : 0.7, () => ({ kind: 'add card', card: card(chance) })],
    [belief.card === 'nothing' ? 0 : 0.5, () => ({ kind: 'remove card' })],
    [slow.includes(belief.card) ? 3 : 0.1, () => ({ kind: 'settle' })],
  ]
  return weighted(chance, options)()
}

const slow: readonly CardName[] = ['a bank debit', 'a card whose refunds take time']

const surface = (chance: Chance): Surface => chance.pick(['organization', 'portal'] as const)

const card = (chance: Chance): CardName =>
  weighted<CardName>(chance, [
    [14, 'a card'],
    [1.5, 'a bank debit'],
    [1, 'a card that is declined later'],
    [1, 'a card that recovers after two declines'],
    [1.5, 'a card whose refunds take time'],
  ])

const buy = (chance: Chance): Step => {
  const product = weighted<ProductName>(chance, [
    [4, 'Free'],
    [3, 'Basic'],
    [4, 'Pro'],
    [3, 'Max'],
    [1, 'Basic yearly'],
    [1, 'Pro yearly'],
    [3, 'Team'],
    [2, 'Team plus'],
  ])
  const free = product === 'Free'
  return {
    kind: 'buy',
    product,
    seats: hasSeats(product) ? chance.between(1, 12) : null,
    card: free ? 'nothing' : card(chance),
    trialDays: !free && chance.next() < 0.08 ? chance.pick([3, 14]) : null,
    discount: !free && chance.next() < 0.12 ? chance.pick(Object.keys(discounts) as DiscountName[]) : null,
  }
}

const behaviorOf = (chance: Chance, on: Surface): Behavior | null =>
  on === 'portal' ? null : weighted<Behavior | null>(chance, [[4, 'prorate'], [3, 'invoice'], [1, 'next_period'], [2, null]]) // oxfmt-ignore

const changePlan = (chance: Chance, { product, seats }: Belief): Step => {
  const others = productNames.filter((name) => name !== product && (seats === null || hasSeats(name) || chance.next() < 0.1))
  const on = surface(chance)
  return { kind: 'plan', surface: on, product: chance.pick(others), behavior: behaviorOf(chance, on) }
}

const changeSeats = (chance: Chance, { seats }: Belief): Step => {
  const on = surface(chance)
  const wanted = chance.between(1, 15)
  return { kind: 'seats', surface: on, seats: wanted === seats ? wanted + 1 : wanted, behavior: behaviorOf(chance, on) }
}

const refund = (chance: Chance): Step => ({
  kind: 'refund',
  order: weighted(chance, [[7, 0], [2, 1], [1, 2]]), // oxfmt-ignore
  percent: chance.pick([1, 10, 40, 60, 80, 90, 99, 100]),
})

const dispute = (chance: Chance): Step => ({
  kind: 'dispute',
  order: weighted(chance, [[7, 0], [2, 1], [1, 2]]), // oxfmt-ignore
  status: chance.pick(['needs_response', 'under_review'] as const),
})

const believe = (belief: Belief, step: Step): Belief => {
  switch (step.kind) {
    case 'buy':
      return { ...belief, product: step.product, seats: step.seats, card: step.card, canceling: false, paid: step.product !== 'Free', tainted: false }
    case 'plan':
      return { ...belief, product: step.product, seats: hasSeats(step.product) ? (belief.seats ?? 1) : null }
    case 'seats':
      return { ...belief, seats: belief.seats === null ? null : step.seats }
    case 'refund':
      return { ...belief, tainted: true }
    case 'dispute':
      return { ...belief, disputed: true, tainted: true }
    case 'win':
      return { ...belief, disputed: false, tainted: false }
    case 'lose':
      return { ...belief, disputed: false, product: null, paid: false, tainted: false }
    case 'cancel':
      return step.atOnce && step.surface === 'organization' ? { ...belief, product: null, canceling: false } : { ...belief, canceling: true }
    case 'uncancel':
      return { ...belief, canceling: false }
    case 'renew':
      return belief.canceling
        ? { ...belief, product: null, canceling: false }
        : { ...belief, paid: belief.product !== 'Free' && belief.card !== 'nothing', tainted: false }
    case 'add card':
      return { ...belief, card: step.card }
    case 'remove card':
      return { ...belief, card: 'nothing' }
    case 'wait':
    case 'settle':
      return belief
  }
}

const changed = (on: Surface, behavior: Behavior | null, text: string): string =>
  on === 'portal' ? `in the portal, ${text}` : `by the organization API, ${text}${behavior === null ? '' : ` (${behavior})`}`

/** Describes the step in plain words. */
export const wordsOf = (step: Step): string => {
  switch (step.kind) {
    case 'buy':
      return [
        `buy ${step.product}${step.seats === null ? '' : ` with ${step.seats} seats`} with ${step.card}`,
        ...(step.trialDays === null ? [] : [`a trial of ${step.trialDays} days`]),
        ...(step.discount === null ? [] : [`the discount "${step.discount}"`]),
      ].join(', ')
    case 'plan':
      return changed(step.surface, step.behavior, `change to ${step.product}`)
    case 'seats':
      return changed(step.surface, step.behavior, `change to ${step.seats} seats`)
    case 'refund':
      return `refund ${step.percent} % of ${orderOf(step.order)}`
    case 'dispute':
      return `the bank opens a dispute (${step.status}) of ${orderOf(step.order)}`
    case 'win':
      return 'the dispute is won'
    case 'lose':
      return step.how === 'bank' ? 'the dispute is lost' : 'the seller accepts the dispute'
    case 'cancel':
      return changed(step.surface, null, step.atOnce && step.surface === 'organization' ? 'revoke the subscription' : 'cancel at the end of the period')
    case 'uncancel':
      return changed(step.surface, null, 'take the cancellation back')
    case 'renew':
      return 'the clock passes the end of the period'
    case 'wait':
      return `the clock passes ${step.percent} % of the time left in the period`
    case 'add card':
      return `in the portal, add ${step.card}`
    case 'remove card':
      return 'in the portal, remove every payment method that can be removed'
    case 'settle':
      return 'the processor settles pending debits and refunds'
  }
}

const orderOf = (back: number): string => (back === 0 ? 'the latest paid order' : `the paid order ${back} before the latest`)
