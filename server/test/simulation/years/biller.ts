/**
 * Calculates independently how the server must have billed every subscription of the run. It uses only the generated
 * changes, no database, and its own calendar and rounding. It imports no code of the server, so that it cannot repeat a
 * mistake of the server.
 */

export type Unit = 'day' | 'week' | 'month' | 'year'

export type Price =
  | { readonly id: string; readonly flat: bigint }
  | { readonly id: string; readonly by: 'volume' | 'graduated'; readonly tiers: readonly { readonly upto: number | null; readonly each: bigint }[] }

export interface Plan {
  readonly id: string
  readonly unit: Unit
  readonly count: number
  readonly prices: readonly Price[]
  readonly least: number | null
}

export interface Deal {
  readonly id: string
  /** The reduction: basis points of the price, or a fixed amount. */
  readonly off: { readonly basisPoints: bigint } | { readonly amount: bigint }
  readonly lasts: 'once' | 'forever' | number
}

/** Behaviour of a card in off-session charges. */
export type Card = 'pays' | 'recovers' | 'declined' | 'expired' | 'none'

export interface Beginning {
  readonly at: number
  readonly currency: string
  readonly tax: { readonly perMillion: bigint; readonly onTop: boolean }
  readonly plan: Plan
  readonly seats: number | null
  readonly deal: Deal | null
  /** End of the trial, when the first payment is due. */
  readonly trialUntil: number | null
  readonly card: Card
}

export type Way = 'prorate' | 'invoice' | 'next_period'

export type Act =
  | { readonly kind: 'plan'; readonly plan: Plan; readonly way: Way }
  | { readonly kind: 'seats'; readonly seats: number; readonly way: Way }
  | { readonly kind: 'deal'; readonly deal: Deal | null }
  | { readonly kind: 'cancel' | 'uncancel' | 'revoke' | 'unpause' | 'resume' | 'clear' | 'start' | 'rescue' }
  | { readonly kind: 'pause'; readonly until: number | null }
  | { readonly kind: 'period'; readonly end: number }

export interface Line {
  readonly amount: bigint
  readonly discount: bigint
  readonly tax: bigint
}

export interface Billed {
  readonly at: number
  readonly reason: 'subscription_create' | 'subscription_cycle' | 'subscription_update'
  /** The period that the order bills, or null if it bills none. */
  readonly period: string | null
  readonly lines: readonly Line[]
  readonly subtotal: bigint
  readonly discount: bigint
  readonly tax: bigint
  readonly total: bigint
  readonly applied: bigint
  readonly due: bigint
  readonly carried: bigint
  status: 'paid' | 'pending' | 'void'
}

// Calendar: converts between dates and days since 1970. Uses eras of 400 years that begin in March.

const DAY = 86_400_000

const dayNumber = (month: number, day: number): number => {
  const shifted = month - 2
  const year = Math.floor(shifted / 12)
  const era = Math.floor(year / 400)
  const inEra = year - era * 400
  const inYear = Math.floor((153 * (shifted - year * 12) + 2) / 5) + day - 1
  return era * 146_097 + inEra * 365 + Math.floor(inEra / 4) - Math.floor(inEra / 100) + inYear - 719_468
}

/** Returns the months since the year 0, and the day of the month. */
const dateOf = (at: number): { month: number; day: number } => {
  const days = Math.floor(at / DAY) + 719_468
  const era = Math.floor(days / 146_097)
  const inEra = days - era * 146_097
  const year = Math.floor((inEra - Math.floor(inEra / 1460) + Math.floor(inEra / 36_524) - Math.floor(inEra / 146_096)) / 365)
  const inYear = inEra - (365 * year + Math.floor(year / 4) - Math.floor(year / 100))
  const shifted = Math.floor((5 * inYear + 2) / 153)
  return { month: (year + era * 400) * 12 + shifted + 2, day: inYear - Math.floor((153 * shifted + 2) / 5) + 1 }
}

const daysIn = (month: number): number => dayNumber(month + 1, 1) - dayNumber(month, 1)

/** Returns the time of day of `at` on another day. Uses the last day of the month if the month is too short. */
const onDay = (at: number, month: number, day: number): number => dayNumber(month, Math.min(day, daysIn(month))) * DAY + (at - Math.floor(at / DAY) * DAY)

interface Calendar {
  readonly from: number
  readonly unit: Unit
  readonly count: number
}

/** Returns the beginning of the nth period of a calendar, calculated directly from its first day. */
const nth = ({ from, unit, count }: Calendar, n: number): number => {
  if (unit === 'day' || unit === 'week') return from + n * count * (unit === 'week' ? 7 : 1) * DAY
  const { month, day } = dateOf(from)
  return onDay(from, month + n * count * (unit === 'year' ? 12 : 1), day)
}

/** Adds months. The last day of a month maps to the last day of the target month. */
const monthsLater = (at: number, months: number): number => {
  const { month, day } = dateOf(at)
  return onDay(at, month + months, day === daysIn(month) ? 31 : day)
}

// Money: integers. Halves are rounded away from zero.

const least: Record<string, bigint> = { usd: 50n, eur: 50n, jpy: 80n, isk: 7000n, gbp: 40n }
const coin = (currency: string): bigint => (currency === 'isk' || currency === 'ugx' ? 100n : 1n)

const nearest = (above: bigint, below: bigint, step = 1n): bigint => {
  const sign = above < 0n ? -1n : 1n
  const whole = (sign * above) / (below * step)
  const rest = sign * above - whole * below * step
  return sign * (2n * rest >= below * step ? whole + 1n : whole) * step
}

const spanned = ([from, to]: readonly [number, number]): string => `${new Date(from).toISOString()}/${new Date(to).toISOString()}`

const total = (amounts: readonly bigint[]): bigint => amounts.reduce((all, one) => all + one, 0n)

/** Splits an amount by weight. Remaining units go to the shares that lost most by rounding down, earlier shares first. */
const shares = (amount: bigint, weights: readonly bigint[]): bigint[] => {
  const all = total(weights)
  if (all === 0n) return weights.map(() => 0n)
  const cut = weights.map((weight) => (amount * weight) / all)
  const lost = weights.map((weight, at) => amount * weight - cut[at]! * all)
  const order = weights.map((_, at) => at).toSorted((a, b) => (lost[a] === lost[b] ? a - b : lost[a]! > lost[b]! ? -1 : 1))
  const left = Number(amount - total(cut))
  return cut.map((one, at) => (order.indexOf(at) < left ? one + 1n : one))
}

const costOf = (price: Price, seats: number | null): bigint => {
  if ('flat' in price) return price.flat
  const wanted = BigInt(seats!)
  const limit = (upto: number | null) => (upto === null || BigInt(upto) > wanted ? wanted : BigInt(upto))
  if (price.by === 'volume') return wanted * price.tiers.find(({ upto }) => upto === null || BigInt(upto) >= wanted)!.each
  return total(price.tiers.map(({ upto, each }, at) => (limit(upto) - (at === 0 ? 0n : limit(price.tiers[at - 1]!.upto))) * each))
}

/** True if the plan has a price for this number of seats. */
const sold = ({ least, prices }: Plan, seats: number | null): boolean => {
  const last = prices.map((price) => ('flat' in price ? null : price.tiers.at(-1)!.upto)).find((upto) => upto !== null) ?? Infinity
  return least === null || (seats! >= least && seats! <= last)
}

const discounts = (costs: readonly bigint[], deal: Deal | null, currency: string): bigint[] => {
  const price = total(costs)
  if (deal === null || price <= 0n) return costs.map(() => 0n)
  const off = 'amount' in deal.off ? deal.off.amount : nearest(price * deal.off.basisPoints, 10_000n, coin(currency))
  return shares(off < price ? off : price, costs)
}

/** A proration charge or credit from a change of the subscription. `place` is its position in the sequence of all entries. */
interface Entry {
  readonly place: number
  readonly amount: bigint
}

/** An order line that billed the time from `from` to the end of the period. `credits` were given for this line later. */
interface Billing {
  readonly id: string
  readonly amount: bigint
  readonly from: number
  readonly credits: { amount: bigint; at: number }[]
}

const linesOf = (amounts: ReadonlyMap<string, bigint>, from: number): Billing[] =>
  [...amounts].filter(([, amount]) => amount > 0n).map(([id, amount]) => ({ id, amount, from, credits: [] }))

interface Open {
  readonly order: Billed
  readonly charge: bigint
  readonly moved: bigint
  readonly waited: readonly Entry[]
  failedAt: number | null
  next: number | null
}

/** Calculates the expected state of one subscription. The caller advances it to a time, then applies the changes of that time. */
export const openBiller = (start: Beginning) => {
  const { currency, tax } = start
  const orders: Billed[] = []
  let open: Open[] = []
  let { plan, seats, deal } = start
  let calendar: Calendar = { from: start.trialUntil ?? start.at, unit: plan.unit, count: plan.count }
  /** Number of periods that have begun since the current billing calendar started. */
  let turns = start.trialUntil === null ? 1 : 0
  let period = { from: start.at, to: start.trialUntil ?? nth(calendar, 1) }
  let status: 'trialing' | 'active' | 'past_due' | 'paused' | 'canceled' = start.trialUntil === null ? 'active' : 'trialing'
  let applied: number | null = start.trialUntil === null ? start.at : null
  /** True if the discount was added during the current period, so that it does not apply yet. */
  let fresh = false
  let canceling = false
  let pausing = false
  let resumes: number | null = null
  let waiting: { plan: Plan | null; seats: number | null } | null = null
  let entries: Entry[] = []
  /** Lines that billed time of the current period, oldest first. */
  let billed: Billing[] = []
  let places = 0
  let balance = 0n
  let owedSince: number | null = null
  let endedAt: number | null = null
  let card = start.card
  let declines = 0

  const enter = (amounts: readonly bigint[]): Entry[] => amounts.map((amount) => ({ place: places++, amount }))

  const write = (at: number, reason: Billed['reason'], span: readonly [number, number] | null, costs: readonly bigint[], parts: readonly Entry[]): Open => {
    const kept = balance
    const off = [...discounts(costs, deal, currency), ...parts.map(() => 0n)]
    const lines = [...costs, ...parts.map(({ amount }) => amount)].map((amount, n): Line => {
      const discount = off[n]!
      const taxed = (amount - discount) * tax.perMillion
      return { amount, discount, tax: tax.onTop ? nearest(taxed, 1_000_000n, coin(currency)) : nearest(taxed, 1_000_000n + tax.perMillion) }
    })
    const subtotal = total(lines.map(({ amount }) => amount))
    const discount = total(lines.map((line) => line.discount))
    const taxes = total(lines.map((line) => line.tax))
    const all = subtotal - discount + (tax.onTop ? taxes : 0n)
    const smaller = (a: bigint, b: bigint) => (a < b ? a : b)
    const used = all < 0n ? (kept < 0n ? smaller(-all, -kept) : 0n) : kept < 0n ? -kept : -smaller(all, kept)
    const due = all + used > 0n ? all + used : 0n
    const whole = due - (due % coin(currency))
    const charge = whole < least[currency]! ? 0n : whole
    const moved = (all < 0n ? -all : used) - (due - charge)
    balance += moved
    const order: Billed = {
      at,
      reason,
      period: span && spanned(span),
      lines,
      subtotal,
      discount,
      tax: taxes,
      total: all,
      applied: used,
      due,
      carried: due - charge,
      status: charge > 0n ? 'pending' : 'paid',
    }
    orders.push(order)
    return { order, charge, moved, waited: parts, failedAt: null, next: null }
  }

  const callOff = (one: Open) => {
    one.order.status = 'void'
    balance -= one.moved
    entries = [...entries, ...one.waited].toSorted((a, b) => a.place - b.place)
  }

  const end = (at: number) => {
    status = 'canceled'
    endedAt = at
    canceling = pausing = false
    resumes = null
    for (const one of open) callOff(one)
    open = []
  }

  const pays = (): boolean => {
    if (card === 'pays' || (card === 'recovers' && declines >= 2)) return true
    declines++
    return false
  }

  /**
   * Returns the next dunning retry: days 2, 7, 14 and 21, but at most three weeks after the debt began. An expired card
   * is retried only on the last day.
   */
  const nextTry = (failedAt: number, now: number): number | null => {
    const last = owedSince! + 21 * DAY
    const days = [2, 7, 14, 21].map((days) => failedAt + days * DAY)
    const tries = card === 'expired' ? [last] : days.at(-1)! > last + 60_000 ? [...days.filter((day) => day < last), last] : days
    return tries.find((day) => day > now) ?? null
  }

  const collect = (one: Open, now: number) => {
    if (pays()) {
      one.order.status = 'paid'
      open = open.filter((other) => other !== one)
      if (status === 'past_due' && open.every(({ failedAt }) => failedAt === null)) {
        status = 'active'
        owedSince = null
      }
      return
    }
    if (endedAt !== null) {
      callOff(one)
      open = open.filter((other) => other !== one)
      return
    }
    owedSince ??= now
    one.failedAt ??= now
    one.next = nextTry(one.failedAt, now)
    if (one.next === null) end(now)
    else status = 'past_due'
  }

  const charge = (one: Open, now: number) => {
    if (one.charge === 0n) return
    open.push(one)
    collect(one, now)
  }

  const costs = () => plan.prices.map((price) => costOf(price, seats))

  /** Returns the discount of a period that begins at this time, or null if the discount has ended. */
  const dealAt = (at: number): Deal | null => {
    if (deal === null || applied === null || deal.lasts === 'forever') return deal
    return at > (deal.lasts === 'once' ? applied : monthsLater(applied, deal.lasts - 1)) ? null : deal
  }

  /** Begins a period: applies the pending change and drops a discount that has ended. */
  const begin = (at: number, restart: boolean) => {
    const to = waiting?.plan ?? plan
    const count = to.least === null ? null : (waiting?.seats ?? seats ?? to.least)
    // Drops a pending change whose plan no longer has a price for the number of seats.
    if (waiting && sold(to, count)) {
      restart ||= to.unit !== plan.unit || to.count !== plan.count
      plan = to
      seats = count
    }
    waiting = null
    deal = dealAt(at)
    applied = deal === null ? null : (applied ?? at)
    if (restart) {
      calendar = { from: at, unit: plan.unit, count: plan.count }
      turns = 0
    }
    turns++
    period = { from: at, to: nth(calendar, turns) }
    if (status !== 'past_due') status = 'active'
    const parts = entries
    const prices = costs()
    fresh = false
    billed = linesOf(nets(plan, seats, deal), at)
    if (parts.length === 0 && prices.every((amount) => amount === 0n)) return
    entries = []
    charge(write(at, 'subscription_cycle', [period.from, period.to], prices, parts), at)
  }

  const periodEnds = () => {
    const at = period.to
    if (canceling) {
      end(at)
      const parts = entries
      entries = []
      if (parts.length > 0) charge(write(at, 'subscription_cycle', [at, at], [], parts), at)
      return
    }
    if (pausing) {
      status = 'paused'
      pausing = false
      return
    }
    begin(at, false)
  }

  /** Returns the price of a whole period after discount, by price id. */
  const nets = (of: Plan, count: number | null, given: Deal | null): Map<string, bigint> => {
    const amounts = of.prices.map((price) => costOf(price, count))
    const off = discounts(amounts, given, currency)
    return new Map(of.prices.map(({ id }, n) => [id, amounts[n]! - off[n]!]))
  }

  const rest = (amount: bigint, now: number): bigint => {
    const [left, whole] = [BigInt(period.to - now), BigInt(period.to - period.from)]
    return left >= whole ? amount : nearest(amount * left, whole, coin(currency))
  }

  /** Returns the proration charges and credits of a change, by price id. If the interval changes, a full new period is charged. */
  const differences = (to: Plan, count: number | null, now: number, restart: boolean): [string, bigint][] => {
    const [before, after] = [nets(plan, seats, deal), nets(to, count, restart ? dealAt(now) : deal)]
    const gone = [...before].filter(([id]) => restart || !after.has(id)).map(([id, amount]): [string, bigint] => [id, rest(-amount, now)])
    const come = [...after].map(([id, amount]): [string, bigint] => [id, restart ? amount : rest(amount - (before.get(id) ?? 0n), now)])
    return [...gone, ...come].filter(([, amount]) => amount !== 0n)
  }

  /** Returns the unused part of a line, rounded up to the smallest coin. It is the line's share of the remaining time, less the same share of each credit. */
  const unused = ({ amount, from, credits }: Billing, now: number): bigint => {
    const spans = [{ amount, at: from }, ...credits.map((one) => ({ amount: -one.amount, at: one.at }))].filter(({ at }) => period.to > at)
    const whole = spans.reduce((all, { at }) => all * BigInt(period.to - at), 1n)
    const value = total(spans.map((one) => (one.amount * whole) / BigInt(period.to - one.at))) * BigInt(Math.max(0, period.to - now))
    const unit = whole * coin(currency)
    return value <= 0n ? 0n : ((value + unit - 1n) / unit) * coin(currency)
  }

  /** Limits the credit for a price to the unused part of the lines that billed it. Uses the latest line first. */
  const limit = (id: string, wanted: bigint, now: number): { amount: bigint; take: () => void } => {
    let left = -wanted
    const shares = billed
      .filter((one) => one.id === id)
      .toReversed()
      .map((one) => {
        const most = unused(one, now)
        const amount = left < most ? left : most
        left -= amount
        return { one, amount }
      })
    return {
      amount: -total(shares.map(({ amount }) => amount)),
      take: () => {
        for (const { one, amount } of shares) if (amount > 0n) one.credits.push({ amount, at: now })
      },
    }
  }

  const change = (to: Plan, count: number | null, way: Way, now: number): boolean => {
    const restart = to.unit !== plan.unit || to.count !== plan.count
    const lines = differences(to, count, now, restart).map(([id, amount]) => ({
      id,
      ...(amount < 0n ? limit(id, amount, now) : { amount, take: () => undefined }),
    }))
    const parts = lines.map(({ amount }) => amount).filter((amount) => amount !== 0n)
    if (way === 'invoice' || restart) {
      const next: Calendar = { from: now, unit: to.unit, count: to.count }
      if (parts.length > 0) {
        // The order also bills all pending entries.
        const waited = entries
        entries = []
        const one = write(now, 'subscription_update', null, [], [...waited, ...enter(parts)])
        if (one.charge > 0n && !pays()) {
          callOff({ ...one, waited })
          return false
        }
        one.order.status = 'paid'
      }
      if (restart) {
        deal = dealAt(now)
        applied = deal === null ? null : (applied ?? now)
        calendar = next
        turns = 1
        period = { from: now, to: nth(next, 1) }
        billed = []
      }
    } else entries = [...entries, ...enter(parts)]
    for (const { take } of lines) take()
    billed = [...billed, ...linesOf(new Map(lines.map(({ id, amount }) => [id, amount])), now)]
    plan = to
    seats = count
    return true
  }

  if (start.card !== 'none') {
    const first = start.trialUntil === null ? write(start.at, 'subscription_create', [period.from, period.to], costs(), []) : null
    if (first) {
      first.order.status = 'paid'
      billed = linesOf(nets(plan, seats, deal), start.at)
    } else {
      const nothing = { subtotal: 0n, discount: 0n, tax: 0n, total: 0n, applied: 0n, due: 0n, carried: 0n }
      orders.push({
        at: start.at,
        reason: 'subscription_create',
        period: spanned([period.from, period.to]),
        lines: [{ amount: 0n, discount: 0n, tax: 0n }],
        ...nothing,
        status: 'paid',
      })
    }
  }

  /** Processes everything that falls due until `to`, in order of time. A period end comes before a retry at the same moment. */
  const advance = (to: number) => {
    for (;;) {
      const due = status === 'canceled' ? null : status === 'paused' ? resumes : period.to
      const [owed] = open.filter(({ next }) => next !== null).toSorted((a, b) => a.next! - b.next!)
      const own = due !== null && due <= to && (owed === undefined || due <= owed.next!)
      if (!own && (owed === undefined || owed.next! > to)) return
      if (!own) collect(owed!, owed!.next!)
      else if (status === 'paused') {
        resumes = null
        begin(due, true)
      } else periodEnds()
    }
  }

  /** Applies a change. Returns false if the change is refused because its payment failed. */
  const act = (what: Act, now: number): boolean => {
    switch (what.kind) {
      case 'plan':
        if (what.way !== 'next_period') {
          const happens = change(what.plan, what.plan.least === null ? null : (seats ?? what.plan.least), what.way, now)
          if (happens) waiting = null
          return happens
        }
        waiting = { plan: what.plan, seats: null }
        return true
      case 'seats':
        if (what.way !== 'next_period') {
          const happens = change(plan, what.seats, what.way, now)
          if (happens && waiting) waiting = waiting.plan ? { plan: waiting.plan, seats: null } : null
          return happens
        }
        waiting = { plan: waiting?.plan ?? null, seats: what.seats }
        return true
      case 'clear':
        waiting = null
        return true
      case 'deal':
        if (what.deal?.id === deal?.id) return true
        deal = what.deal
        applied = null
        fresh = true
        return true
      case 'cancel':
        canceling = true
        pausing = false
        resumes = null
        return true
      case 'uncancel':
        canceling = false
        return true
      case 'revoke':
        end(now)
        // Drops the customer's debt. Credit that the customer is owed is kept.
        if (total(entries.map(({ amount }) => amount)) < 0n) write(now, 'subscription_cycle', null, [], entries)
        return true
      case 'pause':
        pausing = true
        resumes = what.until
        return true
      case 'unpause':
        pausing = false
        resumes = null
        return true
      case 'start':
      case 'resume':
        resumes = null
        begin(now, true)
        return true
      case 'period':
        calendar = { from: what.end, unit: plan.unit, count: plan.count }
        turns = 0
        period = { from: period.from, to: what.end }
        return true
      case 'rescue': {
        const one = open[0]!
        card = 'pays'
        collect(one, now)
        return true
      }
    }
  }

  return {
    orders,
    advance,
    act,
    look: () => ({ fresh, status, plan, seats, deal, period, canceling, pausing, waiting, open: open.length, entries: entries.length, balance, endedAt, card }),
  }
}
export type Biller = ReturnType<typeof openBiller>
