import { openBiller, type Act, type Beginning, type Biller, type Card, type Deal, type Plan, type Unit, type Way } from './biller.ts'

export const currencies = ['usd', 'eur', 'jpy', 'gbp', 'isk'] as const
export type Currency = (typeof currencies)[number]

/** Returns a pseudorandom number generator. The same seed gives the same numbers. */
export const openChance = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return { next, below, pick: <T>(from: readonly T[]): T => from[below(from.length)]!, between: (low: number, high: number) => low + below(high - low + 1) }
}
export type Chance = ReturnType<typeof openChance>

type Tiers = readonly (readonly [upto: number | null, each: number])[]

/** A product with its prices in US cents. Prices in other currencies are derived from them. */
export interface Ware {
  readonly name: string
  readonly unit: Unit
  readonly count: number
  readonly flat: number | null
  readonly seats: { readonly by: 'volume' | 'graduated'; readonly least: number; readonly tiers: Tiers } | null
}

const ware = (name: string, unit: Unit, count: number, flat: number | null, seats: Ware['seats'] = null): Ware => ({ name, unit, count, flat, seats })
const graduated = { by: 'graduated', least: 1, tiers: [[5, 799], [20, 650], [null, 501]] } as const // oxfmt-ignore
const volume = { by: 'volume', least: 2, tiers: [[4, 907], [9, 790], [40, 693]] } as const // oxfmt-ignore

/** Products by row. Products of a row have the same interval, and all or none of them have seats. */
export const rows: readonly (readonly Ware[])[] = [
  [ware('Monthly solo', 'month', 1, 990), ware('Monthly pro', 'month', 1, 2490), ware('Monthly max', 'month', 1, 4999)],
  [ware('Yearly solo', 'year', 1, 9900), ware('Yearly pro', 'year', 1, 23_990)],
  [ware('Weekly one', 'week', 1, 457), ware('Weekly two', 'week', 1, 777)],
  [ware('Quarterly one', 'month', 3, 2500), ware('Quarterly two', 'month', 3, 5333)],
  [ware('Every 10 days', 'day', 10, 333), ware('Every 10 days, more', 'day', 10, 650)],
  [ware('Every 45 days', 'day', 45, 1999), ware('Every 45 days, more', 'day', 45, 3501)],
  [ware('Fortnightly one', 'week', 2, 850), ware('Fortnightly two', 'week', 2, 1310)],
  [ware('Five months', 'month', 5, 4100), ware('Five months, more', 'month', 5, 6300)],
  [ware('Two years', 'year', 2, 17_000), ware('Two years, more', 'year', 2, 41_000)],
  [ware('Team', 'month', 1, 1500, graduated), ware('Big team', 'month', 1, 2900, graduated), ware('Crew', 'month', 1, null, volume)],
  [ware('Yearly team', 'year', 1, 15_000, graduated), ware('Yearly crew', 'year', 1, null, volume)],
  [ware('Free', 'month', 1, 0)],
]
export const wares = rows.flat()

/** Converts US cents to another currency. Uses whole units in currencies without smaller coins. */
export const priceIn = (currency: Currency, cents: number): number => {
  if (cents === 0) return 0
  if (currency === 'isk') return Math.round((cents * 137) / 100) * 100
  return currency === 'jpy' ? cents + 1 : currency === 'gbp' ? cents * 3 + 1 : currency === 'eur' ? cents - 7 : cents
}

export const planOf = ({ name, unit, count, flat, seats }: Ware, currency: Currency): Plan => ({
  id: name,
  unit,
  count,
  least: seats?.least ?? null,
  prices: [
    ...(flat === null ? [] : [{ id: `${name} flat`, flat: BigInt(priceIn(currency, flat)) }]),
    ...(seats === null
      ? []
      : [{ id: `${name} seats`, by: seats.by, tiers: seats.tiers.map(([upto, each]) => ({ upto, each: BigInt(priceIn(currency, each)) })) }]),
  ],
})

export const bargains = [
  { name: 'Once 33.33', basisPoints: 3333, duration: 'once' },
  { name: 'Once 5.00', cents: 500, duration: 'once' },
  { name: 'Three months 12.5', basisPoints: 1250, duration: 3 },
  { name: 'A year 20', basisPoints: 2000, duration: 12 },
  { name: 'Seven months 1.99', cents: 199, duration: 7 },
  { name: 'For ever 7.77', basisPoints: 777, duration: 'forever' },
  { name: 'For ever 0.73', cents: 73, duration: 'forever' },
  { name: 'Nearly free', basisPoints: 9750, duration: 18 },
] as const
export type Bargain = (typeof bargains)[number]

export const dealOf = (bargain: Bargain, currency: Currency): Deal => ({
  id: bargain.name,
  off: 'cents' in bargain ? { amount: BigInt(priceIn(currency, bargain.cents)) } : { basisPoints: BigInt(bargain.basisPoints) },
  lasts: bargain.duration,
})

export const places = {
  DE: { address: { country: 'DE' }, perMillion: 190_000n, onTop: false },
  'US-NY': { address: { country: 'US', state: 'US-NY', city: 'Troy', postal_code: '12180', line1: '1 River Street' }, perMillion: 88_750n, onTop: true },
  'CA-ON': { address: { country: 'CA', state: 'CA-ON', city: 'Guelph', postal_code: 'N1G 2W1', line1: '2 Stone Road' }, perMillion: 130_000n, onTop: true },
  IS: { address: { country: 'IS' }, perMillion: 240_000n, onTop: false },
  JP: { address: { country: 'JP' }, perMillion: 100_000n, onTop: false },
  GB: { address: { country: 'GB' }, perMillion: 0n, onTop: false },
} as const
export type Place = keyof typeof places

/** A change of a subscription, requested at one of the times at which its test clock stops. */
export interface StoryAction {
  readonly at: number
  readonly act: Act
  /** False if the server must refuse the change, because its payment fails. */
  readonly happens: boolean
}

export interface Story {
  readonly name: string
  readonly clock: number
  readonly currency: Currency
  readonly place: Place
  readonly beginning: Beginning
  readonly trialDays: number | null
  readonly bargain: Bargain | null
  readonly deeds: readonly StoryAction[]
  readonly expected: Biller
}

export interface Clock {
  readonly name: string
  readonly stops: readonly number[]
}

const DAY = 86_400_000
export const horizon = Date.parse('2056-03-20T00:00:00Z')

const openings = [
  '2026-01-31T09:30:00Z',
  '2026-01-30T23:59:59Z',
  '2026-01-29T00:00:00Z',
  '2026-01-28T12:00:00.500Z',
  '2026-03-31T18:45:10Z',
  '2026-02-28T06:00:00Z',
  '2026-05-31T21:15:00Z',
  '2026-08-30T03:14:07Z',
  '2026-01-15T14:00:00.001Z',
]
/** Index of the clock that always advances by 90 days, as after a long worker outage. The others advance by 60 to 95 days. */
const striding = 0
export const leapDay = Date.parse('2028-02-29T11:11:11Z')

export const clocksOf = (seed: number, until: number): Clock[] =>
  openings.map((opening, n) => {
    const chance = openChance(seed * 1009 + n)
    const stops = [Date.parse(opening)]
    for (;;) {
      const last = stops.at(-1)!
      if (last >= until) break
      const stride = n === striding ? 90 * DAY : chance.between(60, 95) * DAY + chance.between(0, 86_399) * 1000
      const next = Math.min(last + stride, until)
      stops.push(last < leapDay && leapDay < next ? leapDay : next)
    }
    return { name: opening, stops }
  })

/** A kind of simulated subscription: its row of products, how many there are, and their special traits. */
type Cast = {
  readonly row: number
  readonly times: number
  readonly card?: Card
  readonly mortal?: boolean
  readonly trial?: boolean
  readonly leap?: boolean
}

const casts: readonly Cast[] = [
  { row: 2, times: 1, mortal: true },
  { row: 4, times: 1, mortal: true },
  { row: 6, times: 1, mortal: true },
  { row: 0, times: 1, leap: true },
  { row: 0, times: 1, trial: true },
  { row: 3, times: 1, card: 'recovers' },
  { row: 0, times: 1, card: 'declined' },
  { row: 0, times: 1, card: 'expired' },
  { row: 0, times: 3, mortal: true },
  { row: 1, times: 7 },
  { row: 1, times: 2, leap: true },
  { row: 1, times: 1, card: 'expired' },
  { row: 1, times: 1, card: 'declined', trial: true },
  { row: 8, times: 1, card: 'recovers' },
  { row: 2, times: 2, card: 'declined' },
  { row: 3, times: 3 },
  { row: 3, times: 1, leap: true },
  { row: 3, times: 1, trial: true },
  { row: 5, times: 1, mortal: true },
  { row: 7, times: 3, leap: true },
  { row: 7, times: 5 },
  { row: 8, times: 1, leap: true },
  { row: 8, times: 8 },
  { row: 9, times: 1, trial: true },
  { row: 9, times: 1, mortal: true },
  { row: 10, times: 6 },
  { row: 10, times: 1, trial: true },
  { row: 11, times: 3, card: 'none' },
]

export interface Mix {
  readonly seed: number
  readonly subscriptions: number
  readonly until: number
}

/**
 * Generates the sequence of changes for each subscription of a run. The same seed gives the same sequences. Every change
 * is possible when it is requested, because it is chosen by the state that the biller has calculated.
 */
export const compose = ({ seed, subscriptions, until }: Mix): { clocks: Clock[]; stories: Story[] } => {
  const clocks = clocksOf(seed, until)
  const all = casts.flatMap(({ times, ...cast }) => Array.from({ length: times }, () => cast))
  // Spreads the kinds of subscriptions over the list, so that a small run has many kinds too.
  const order = all.map((_, n) => n).toSorted((a, b) => ((a * 37) % all.length) - ((b * 37) % all.length))
  const stories = Array.from({ length: subscriptions }, (_, n) => compose1(openChance(seed * 7919 + n), n, all[order[n % all.length]!]!, clocks))
  // Drops clocks that no subscription uses, so that the run does not wait for them.
  const used = clocks.filter((_, n) => stories.some(({ clock }) => clock === n))
  return { clocks: used, stories: stories.map((story) => ({ ...story, clock: used.indexOf(clocks[story.clock]!) })) }
}

const byCurrency: Record<Currency, readonly Place[]> = {
  usd: ['US-NY', 'DE'],
  eur: ['DE', 'CA-ON'],
  jpy: ['JP', 'US-NY'],
  gbp: ['GB', 'DE'],
  isk: ['IS', 'US-NY'],
}

const compose1 = (chance: Chance, n: number, cast: Omit<Cast, 'times'>, clocks: readonly Clock[]): Story => {
  const clock = cast.leap ? 1 + (n % (clocks.length - 1)) : n % clocks.length
  const { stops } = clocks[clock]!
  // The seller creates free subscriptions, in the seller's own currency.
  const currency = cast.card === 'none' ? 'usd' : currencies[n % currencies.length]!
  const place = chance.pick(byCurrency[currency])
  const at = cast.leap ? Math.max(0, stops.indexOf(leapDay)) : chance.next() < 0.7 ? 0 : chance.between(1, Math.min(8, stops.length - 2))
  const product = chance.pick(rows[cast.row]!)
  const bargain = cast.card === 'none' || chance.next() < 0.5 ? null : chance.pick(bargains)
  const trialDays = cast.trial ? chance.pick([3, 14, 45, 90]) : null
  const beginning: Beginning = {
    at: stops[at]!,
    currency,
    tax: { perMillion: places[place].perMillion, onTop: places[place].onTop },
    plan: planOf(product, currency),
    seats: product.seats ? chance.between(product.seats.least, 12) : null,
    deal: bargain && dealOf(bargain, currency),
    trialUntil: trialDays === null ? null : stops[at]! + trialDays * DAY,
    card: cast.card ?? 'pays',
  }
  const expected = openBiller(beginning)
  const deeds: StoryAction[] = []
  let last: Act['kind'] | null = null
  for (const stop of stops.slice(at + 1)) {
    expected.advance(stop)
    if (stop === stops.at(-1)) break
    const act = choose(chance, expected, cast, { now: stop, currency, last, next: stops[stops.indexOf(stop) + 1]! })
    if (act === null) continue
    deeds.push({ at: stop, act, happens: expected.act(act, stop) })
    last = act.kind
  }
  return { name: `${n} ${product.name}`, clock, currency, place, beginning, trialDays, bargain, deeds, expected }
}

const siblings = (plan: Plan): readonly Ware[] => rows.find((row) => row.some(({ name }) => name === plan.id))!

const dearest = (plan: Plan, currency: Currency): Plan =>
  planOf(
    siblings(plan).find(({ name }) => name !== plan.id)!,
    currency,
  )

/** Chooses a change that is possible in the subscription's current state, or null. */
const choose = (
  chance: Chance,
  biller: Biller,
  cast: Omit<Cast, 'times'>,
  { now, currency, last, next }: { now: number; currency: Currency; last: Act['kind'] | null; next: number },
): Act | null => {
  const seen = biller.look()
  const often = 0.06
  if (seen.status === 'canceled') return null
  if (seen.status === 'past_due' && !seen.canceling && chance.next() < 0.1) return { kind: 'cancel' }
  if (seen.status === 'past_due') return seen.open === 1 && chance.next() < 0.8 ? { kind: 'rescue' } : null
  if (seen.status === 'paused') return chance.next() < 0.4 ? { kind: 'resume' } : null
  if (seen.status === 'trialing') return chance.next() < 0.3 ? { kind: 'start' } : null
  if (seen.canceling) return chance.next() < (cast.mortal ? 0.3 : 1) ? { kind: 'uncancel' } : null
  if (seen.pausing) return chance.next() < 0.2 ? { kind: 'unpause' } : null
  // A customer without a payment method starts with a free plan, and may change to a paid plan later.
  if (seen.card === 'none' && seen.plan.id !== 'Free') return chance.next() < 0.5 ? { kind: 'cancel' } : null
  if (seen.card === 'none')
    return chance.next() < 0.1 ? { kind: 'plan', plan: planOf(rows[0]![0]!, currency), way: chance.pick(['prorate', 'next_period']) } : null
  // With a card that is declined, the only change is an upgrade that must be refused.
  if (seen.card === 'declined' || seen.card === 'expired')
    return chance.next() < 0.4 ? { kind: 'plan', plan: dearest(seen.plan, currency), way: 'invoice' } : null
  if (seen.waiting && chance.next() < 0.15) return { kind: 'clear' }
  if (chance.next() > often) return null
  const ways: readonly Way[] = ['prorate', 'prorate', 'invoice', 'next_period']
  // A new discount applies from the next period on. Until then, changes must wait for the next period too.
  const wayOf = (fresh: boolean): Way => (fresh ? 'next_period' : chance.pick(ways))
  const enough = (seats: Ware['seats']) => seats === null || (seen.seats !== null && seen.seats >= seats.least)
  const others = siblings(seen.plan).filter(({ name, seats }) => name !== seen.plan.id && (seats === null) === (seen.plan.least === null) && enough(seats))
  const canPeriod = now + 2 * DAY < seen.period.to
  const seated = seen.plan.least === null ? (['plan', 'plan', 'deal'] as const) : (['seats', 'seats', 'seats', 'seats'] as const)
  const kind = chance.pick(['plan', 'plan', ...seated, 'rhythm', 'deal', 'pause', 'cancel', 'period', 'revoke'] as const)
  switch (kind) {
    case 'plan': {
      const to = others.length === 0 ? null : chance.pick(others)
      if (to === null) return null
      return { kind, plan: planOf(to, currency), way: wayOf(seen.fresh) }
    }
    case 'seats': {
      const seats = chance.between(seen.plan.least!, 30)
      return seats === seen.seats ? null : { kind, seats, way: wayOf(seen.fresh) }
    }
    case 'rhythm': {
      if (chance.next() < 0.5) return null
      const to = chance.pick(
        wares.filter(
          ({ name, unit, count, seats, flat }) =>
            name !== 'Free' &&
            flat !== 0 &&
            (seats === null) === (seen.plan.least === null) &&
            enough(seats) &&
            unit !== 'week' &&
            (unit !== 'day' || count > 10) &&
            (unit !== seen.plan.unit || count !== seen.plan.count),
        ),
      )
      return { kind: 'plan', plan: planOf(to, currency), way: wayOf(seen.fresh) }
    }
    case 'deal':
      return { kind, deal: seen.deal !== null && chance.next() < 0.4 ? null : dealOf(chance.pick(bargains), currency) }
    case 'pause':
      return { kind, until: chance.next() < 0.5 ? seen.period.to + chance.between(1, 60) * DAY + chance.between(0, 86_399) * 1000 : null }
    case 'cancel':
      // The cancellation is undone at the next stop, if that is before the end of the period.
      return cast.mortal || next < seen.period.to ? { kind } : null
    case 'period':
      return canPeriod && last !== 'period' ? { kind, end: now + chance.between(1, 40) * DAY } : null
    case 'revoke':
      return cast.mortal && chance.next() < 0.3 ? { kind } : null
  }
}
