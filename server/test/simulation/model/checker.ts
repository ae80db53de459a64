import { isPaid, type Books, type Entry, type Order, type Subscription } from './books.ts'
import { discounts, places, priceOf, products, type PlaceName, type ProductName } from './catalogue.ts'
import type { Step } from './generator.ts'
import { isOpen, type Outcome } from './steps.ts'

/** The name of an invariant. The comment of each check function defines its invariant. `error`: a step failed with an exception. */
export type Invariant = 'credit' | 'price' | 'payment' | 'refusal' | 'error'

export interface Violation {
  readonly invariant: Invariant
  readonly text: string
}

/** A proration that the checker has recorded, with the period whose time the proration credits or bills. */
interface Line {
  readonly subscription_id: string
  /** Start of the period. */
  readonly period: number
  readonly amount: number
  readonly gross: number
  /** The fraction of the period that was left when the proration was created. */
  readonly fraction: number
  readonly step: number
  readonly portal: boolean
  /** The order that was created with this proration. Null for a billing entry, which a later order bills. */
  readonly order_id: string | null
  /** True if the line takes credit back after a refund or dispute, or restores credit after the refund or dispute failed. */
  readonly takesBack: boolean
}

/** Credit taken back after a refund or a dispute of these orders. */
interface TakenBack {
  readonly orders: readonly string[]
  readonly gross: number
}

const cents = (amount: number): string => (amount / 100).toFixed(2)
const sum = (amounts: readonly number[]): number => amounts.reduce((total, amount) => total + amount, 0)

/** Keeps its own record of one customer's prorations, step by step, and checks the server's rows against it. */
export const openChecker = (place: PlaceName, productOf: (subscription: Subscription) => ProductName) => {
  const { rate, inclusive } = places[place]
  const lines = new Map<string, Line>()
  const takenBack: TakenBack[] = []
  /** The step in which each dispute was opened or each refund was requested. */
  const opened = new Map<string, number>()
  /** Orders of changes that were paid after their subscription had ended. The server drops the change and refunds the payment. */
  const late = new Set<string>()
  let unexplained = 0
  /** The largest discount so far. The price invariant allows for it, because a discount needs no payment. */
  let discount = 0

  const grossOf = (amount: number): number => (inclusive ? amount : amount + Math.round(amount * rate))

  /** Records the prorations, disputes and balance changes that a step has caused. */
  const record = (at: number, step: Step, before: Books, after: Books): void => {
    const touched = after.orders.filter((order) => moneyOf(order) !== moneyOf(before.orders.find(({ id }) => id === order.id))).map(({ id }) => id)
    const takesBack = ['refund', 'dispute', 'win', 'lose', 'settle'].includes(step.kind)
    const place = (id: string, created_at: string, amount: number, restarts: boolean) => {
      const { current_period_start, current_period_end } =
        before.subscriptions.find((one) => one.id === id) ?? after.subscriptions.find((one) => one.id === id)!
      const [start, end, now] = [current_period_start, current_period_end, created_at].map((moment) => Date.parse(moment)) as [number, number, number]
      if (amount > 0 && restarts) return { period: now, fraction: 1 }
      return { period: start, fraction: (end - now) / (end - start) }
    }
    const portal = 'surface' in step && step.surface === 'portal'
    for (const { id, subscription_id, created_at, amount } of after.entries) {
      const gross = grossOf(amount)
      const known = lines.get(id)
      // The entry is known. A refund or a dispute may have reduced a credit that no order has billed yet.
      if (known) {
        lines.set(id, { ...known, gross })
        continue
      }
      if (takesBack) takenBack.push({ orders: touched, gross })
      lines.set(id, { subscription_id, ...place(subscription_id, created_at, amount, false), amount, gross, step: at, portal, order_id: null, takesBack })
    }
    for (const { id: order_id, billing_reason, subscription_id, created_at, items } of after.orders) {
      // Skips renewals. Their proration items only bill entries, which are recorded already.
      if (billing_reason !== 'subscription_update') continue
      const entered = after.entries.filter((entry) => entry.order_id === order_id).map(({ amount }) => amount)
      for (const { id, label, amount, gross, proration } of items) {
        if (!proration || lines.has(id)) continue
        const known = entered.indexOf(amount)
        if (known !== -1) {
          entered.splice(known, 1)
          continue
        }
        const restarts = step.kind === 'plan' && restartsPeriod(before, subscription_id, step.product, productOf)
        // If the credit was already spent, the server takes it back or restores it with a separate order. That order moves the balance.
        const back = /^Credit (taken back|restored): /.test(label)
        if (back) takenBack.push({ orders: touched, gross })
        lines.set(id, { subscription_id, ...place(subscription_id, created_at, amount, restarts), amount, gross, step: at, portal, order_id, takesBack: back })
      }
    }
    for (const { charges } of after.orders)
      for (const { disputes, pending } of charges) for (const { id } of [...disputes, ...pending]) if (!opened.has(id)) opened.set(id, at)
    for (const order of after.orders) {
      const known = before.orders.find(({ id }) => id === order.id)
      const ended = before.subscriptions.some(({ id, ended_at }) => id === order.subscription_id && ended_at !== null)
      if (ended && known?.status === 'pending' && isPaid(order) && order.billing_reason === 'subscription_update') late.add(order.id)
    }
    const left = after.balance - explainedBalance(after, late)
    if (left !== unexplained) takenBack.push({ orders: touched, gross: unexplained - left })
    unexplained = left
    if (step.kind === 'buy' && step.discount !== null) discount = Math.max(discount, discounts[step.discount].basis_points / 10_000)
  }

  /**
   * Credit: the credit given for a period must not exceed the money that the seller has for that period. That money is
   * the amount that paid orders billed before the credit, less refunds and disputes. Orders that were paid with credit
   * count as paid. A debit that waits for the next order also covers later credit, because one order bills both.
   * Succeeded refunds and lost disputes always count. Pending refunds and open disputes count only against credit that was
   * given after the first of them. Amounts include tax.
   */
  const checkCredit = (books: Books): Violation[] => {
    if (unexplained > 0) return [{ invariant: 'credit', text: `the customer's balance is ${cents(unexplained)} above the balance that the orders explain` }]
    const given = [...lines].filter(([id, line]) => line.gross < 0 && !line.takesBack && isGiven(books, id, line))
    const groups = Map.groupBy(given, ([, { subscription_id, period }]) => `${subscription_id} ${period}`)
    return [...groups.values()].flatMap((group) => {
      const credits = group.map(([, line]) => line)
      const { subscription_id, period } = credits[0]!
      const since = firstOpening(books, subscription_id)
      for (const [at, from] of [...new Set(credits.map(({ step }) => step))].flatMap((step) => [[step, -1] as const, [step, since] as const])) {
        const credit = 0 - sum(credits.filter(({ step }) => step > from && step <= at).map(({ gross }) => gross))
        const { paid, gone, debits, back } = fundsOf(books, subscription_id, period, at, from >= 0)
        const tolerance = 2 + lines.size
        if (credit > Math.max(0, paid - gone) + debits + back + tolerance)
          return [
            {
              invariant: 'credit' as const,
              text: `credit exceeds the money kept: for the period from ${new Date(period).toISOString().slice(0, 10)} the customer has credit of ${cents(credit)}, the seller has ${cents(Math.max(0, paid - gone))} (paid ${cents(paid)}, refunded or disputed ${cents(gone)}), debits to be billed are ${cents(debits)}, credit taken back is ${cents(back)}`,
            },
          ]
      }
      return []
    })
  }

  const isGiven = (books: Books, id: string, { order_id, subscription_id }: Line): boolean => {
    if (order_id !== null) return isPaid(orderOf(books, order_id)!) && !late.has(order_id)
    const entry = books.entries.find((one) => one.id === id)
    if (!entry) return false
    // The entries of a subscription that has ended are never billed.
    return isBilled(books, entry) || books.subscriptions.find((one) => one.id === subscription_id)!.ended_at === null
  }

  /**
   * Returns the amounts for a period at the time of a credit. `paid`: by orders. `gone`: refunded or lost to disputes.
   * `debits`: still to be billed. `back`: credit that was taken back.
   */
  const fundsOf = (books: Books, subscription_id: string, period: number, at: number, withOpened: boolean) => {
    let [paid, gone] = [0, 0]
    const mine = [...lines].filter(
      ([, line]) => line.subscription_id === subscription_id && line.period === period && line.gross > 0 && line.step < at && !line.takesBack,
    )
    for (const order of books.orders) {
      if (order.subscription_id !== subscription_id || !isPaid(order) || late.has(order.id)) continue
      const base = isFor(order, period) ? sum(order.items.filter(({ proration }) => !proration).map(({ gross }) => gross)) : 0
      const prorated = mine.filter(([id, line]) => billedBy(books, id, line) === order.id)
      const part = base + sum(prorated.map(([, { gross }]) => gross))
      if (part <= 0) continue
      const whole = sum(order.items.map(({ gross }) => Math.max(0, gross))) + Math.max(0, order.applied_balance_amount)
      paid += part
      // An order may also bill time of other periods. A refund reduces the money for those periods first.
      gone += Math.min(part, Math.max(0, goneOf(order, withOpened ? at : 0) - (whole - part)))
    }
    const waiting = mine.filter(([id, { order_id }]) => order_id === null && books.entries.some((entry) => entry.id === id && !isPaidWith(books, entry)))
    const back = takenBack.filter(({ orders }) =>
      orders.some((id) => {
        const order = orderOf(books, id)
        return order && (isFor(order, period) || [...lines].some(([key, line]) => line.period === period && billedBy(books, key, line) === id))
      }),
    )
    return { paid, gone, debits: sum(waiting.map(([, { gross }]) => gross)), back: sum(back.map(({ gross }) => gross)) }
  }

  /**
   * Returns the money of an order that was refunded or lost to a dispute. Includes pending refunds and open disputes
   * from before a step.
   */
  const goneOf = ({ charges }: Order, at: number): number =>
    sum(
      charges.map(({ refunded, pending, disputes }) => {
        const returned = refunded - sum(pending.filter(({ id }) => opened.get(id)! >= at).map(({ amount }) => amount))
        const lost = disputes.filter(({ id, status }) => status === 'lost' || (isOpen(status) && opened.get(id)! < at))
        return returned + sum(lost.map(({ amount }) => amount))
      }),
    )

  /** Returns the step of the first pending refund or open dispute of the subscription. Infinity if there is none. */
  const firstOpening = ({ orders }: Books, subscription_id: string): number =>
    Math.min(
      ...orders
        .filter((order) => order.subscription_id === subscription_id)
        .flatMap(({ charges }) => charges.flatMap(({ pending, disputes }) => [...pending, ...disputes.filter(({ status }) => isOpen(status))]))
        .map(({ id }) => opened.get(id)!),
    )

  /**
   * Price: an active subscription costs no more than the orders and recorded debits of its period cover. An order
   * counts while it is paid, or while a payment attempt is pending or scheduled. A debit that waits for the next order
   * counts if the seller requested it by the organization API. It does not count if the customer made the change in the
   * portal.
   */
  const checkPrice = (books: Books): Violation[] =>
    books.subscriptions
      .filter(({ status }) => status === 'active' || status === 'past_due')
      .flatMap((subscription) => {
        const period = Date.parse(subscription.current_period_start)
        const product = productOf(subscription)
        const price = priceOf(product, subscription.seats) * (1 - discount)
        const own = [...lines].filter(
          ([id, line]) => line.subscription_id === subscription.id && line.period === period && !line.takesBack && isCharged(books, id, line),
        )
        // Skips changes at the very end of a period. There the rounding to a cent is too large compared with the amount.
        if (own.some(([, { fraction }]) => fraction < 0.01)) return []
        const base = books.orders.filter((order) => order.subscription_id === subscription.id && isFor(order, period) && isCollected(order))
        const billed = sum(
          base.flatMap(({ items }) => items.filter(({ proration }) => !proration).map(({ amount, discount_amount }) => amount - discount_amount)),
        )
        const changes = [...Map.groupBy(own, ([, { step }]) => step).values()].map((change) => {
          const rates = sum(change.map(([, { amount, fraction }]) => amount / fraction))
          if (change.some(([, { portal, order_id }]) => portal && order_id === null)) return Math.min(0, rates)
          // A change that waits for its payment is not active yet, so its credit does not count.
          return change.some(([, { order_id }]) => order_id !== null && !isPaid(orderOf(books, order_id)!)) ? Math.max(0, rates) : rates
        })
        const covered = billed + sum(changes)
        const tolerance = 1 + sum(own.map(([, { fraction }]) => 1 / fraction))
        if (price <= covered + tolerance) return []
        const shown = subscription.seats === null ? product : `${product} with ${subscription.seats} seats`
        return [
          {
            invariant: 'price',
            text: `a change is active at a higher price without a paid order or an attempt in progress: ${shown} costs ${cents(price)} a period, orders and recorded debits cover ${cents(covered)}`,
          },
        ]
      })

  const isCharged = (books: Books, id: string, { order_id }: Line): boolean => {
    const order = order_id === null ? undefined : orderOf(books, order_id)!
    return order ? isPaid(order) || order.attempting : books.entries.some((entry) => entry.id === id)
  }

  return {
    /** Records a step, then returns the invariants that are violated after it. */
    check: (at: number, step: Step, outcome: Outcome, before: Books, after: Books): Violation[] => {
      record(at, step, before, after)
      return [
        ...checkCredit(after),
        ...checkPrice(after),
        ...checkPayments(after),
        ...(outcome.result === 'refused' ? checkRefusal(outcome, before, after) : []),
      ]
    },
  }
}

/** Returns the order that bills a proration, or null if none does yet. */
const billedBy = ({ entries }: Books, id: string, { order_id }: Line): string | null => order_id ?? entries.find((entry) => entry.id === id)?.order_id ?? null

/** True if the order bills the whole period. */
const isFor = ({ period_start }: Order, period: number): boolean => period_start !== null && Date.parse(period_start) === period

const isCollected = (order: Order): boolean => isPaid(order) || (order.status === 'pending' && (order.attempting || order.scheduled))

const orderOf = ({ orders }: Books, id: string | null): Order | undefined => orders.find((order) => order.id === id)

const isBilled = (books: Books, { order_id }: Entry): boolean => {
  const order = orderOf(books, order_id)
  return order !== undefined && order.status !== 'void'
}

const isPaidWith = (books: Books, { order_id }: Entry): boolean => {
  const order = orderOf(books, order_id)
  return order !== undefined && isPaid(order)
}

const moneyOf = (order: Order | undefined): string =>
  JSON.stringify(order?.charges.map(({ refunded, pending, disputes }) => [refunded, pending, disputes]) ?? [])

const restartsPeriod = (before: Books, subscription_id: string, to: ProductName, productOf: (subscription: Subscription) => ProductName): boolean => {
  const subscription = before.subscriptions.find(({ id }) => id === subscription_id)
  return subscription !== undefined && products[productOf(subscription)].interval !== products[to].interval
}

/** Returns the balance that follows from the orders. Orders below zero add to the balance. Other orders use it up or collect debt. */
const explainedBalance = ({ orders }: Books, late: ReadonlySet<string>): number =>
  sum(
    orders
      .filter(({ status }) => status !== 'void' && status !== 'draft')
      .map(
        ({ id, total_amount, applied_balance_amount, carried_amount }) =>
          (total_amount < 0 ? 0 - total_amount : applied_balance_amount) - carried_amount + (late.has(id) ? Math.max(0, 0 - applied_balance_amount) : 0),
      ),
  )

/** Payment: the processor charged exactly the amount that a paid order asked for. */
const checkPayments = ({ orders }: Books): Violation[] =>
  orders.flatMap((order) => {
    const charged = sum(order.charges.map(({ amount }) => amount))
    const asked = order.due_amount - order.carried_amount
    if (!isPaid(order) || charged === asked) return []
    return [{ invariant: 'payment', text: `an order asks for ${cents(asked)} and is ${order.status}, the processor charged ${cents(charged)}` }]
  })

/**
 * Refusal: a refused step changes no subscription, entry, balance or earlier order. A change whose payment is still in
 * progress was started, not refused.
 */
const checkRefusal = ({ answer }: Outcome, before: Books, after: Books): Violation[] => {
  if (after.orders.some(({ id, attempting }) => attempting && !before.orders.some((order) => order.id === id))) return []
  const shape = ({ subscriptions, entries, balance, orders }: Books) =>
    JSON.stringify([
      subscriptions,
      entries,
      balance,
      orders.filter(({ id }) => before.orders.some((order) => order.id === id)).map(({ id, status }) => [id, status]),
    ])
  const fresh = after.orders.filter(({ id, status, attempting }) => !before.orders.some((order) => order.id === id) && status !== 'void' && !attempting)
  if (shape(before) === shape(after) && fresh.length === 0) return []
  return [{ invariant: 'refusal', text: `a step was refused with ${answer} and changed something all the same` }]
}
