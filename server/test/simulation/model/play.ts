import { openChecker, type Violation } from './checker.ts'
import { monthlyPriceOf, type ProductName } from './catalogue.ts'
import type { Books, Subscription } from './books.ts'
import type { Sequence, Step } from './generator.ts'
import type { Lane } from './stage.ts'
import { openCustomer, type Outcome } from './steps.ts'

/** The result of a sequence, which was played to its end or to its first violation. */
export interface Played {
  readonly steps: readonly Step[]
  /** Kind and result of each step that was played. */
  readonly counted: readonly { readonly kind: string; readonly result: Outcome['result'] }[]
  /** Each step that was played, in words. */
  readonly done: readonly string[]
  readonly violation: Violation | undefined
}

/** Plays a sequence with a new customer. Checks the invariants after every step. */
export const play = async (lane: Lane, { place, behavior, steps }: Sequence, label: string): Promise<Played> => {
  const { read, perform, productOf } = await openCustomer(lane, { place, behavior }, label)
  const { check } = openChecker(place, productOf)
  const counted: { kind: string; result: Outcome['result'] }[] = []
  const done: string[] = []
  let before = await read()
  for (const [at, step] of steps.entries()) {
    const kind = kindOf(step, before, productOf)
    try {
      const outcome = await perform(step, before)
      const after = await read()
      const result = step.kind === 'renew' && outcome.result === 'accepted' && !hasRenewed(before, after) ? 'refused' : outcome.result
      counted.push({ kind, result })
      done.push(result === 'refused' ? `refused ${outcome.answer}`.trimEnd() : result)
      const [violation] = check(at, step, outcome, before, after)
      if (violation) return { steps, counted, done, violation }
      before = after
    } catch (error) {
      done.push('failed')
      return { steps, counted, done, violation: { invariant: 'error', text: String(error) } }
    }
  }
  return { steps, counted, done, violation: undefined }
}

/** Shortens a failing sequence: removes single steps as long as the same invariant is still violated. */
export const shrink = async (lane: Lane, sequence: Sequence, played: Played, label: string): Promise<Played> => {
  let shortest: Played = { ...played, steps: sequence.steps.slice(0, played.done.length) }
  let tries = 0
  for (let shorter = true; shorter;) {
    shorter = false
    for (let at = shortest.steps.length - 1; at >= 0 && tries < 60; at--) {
      const steps = shortest.steps.toSpliced(at, 1)
      const again = await play(lane, { ...sequence, steps }, `${label}-${++tries}`)
      if (again.violation?.invariant !== played.violation!.invariant) continue
      shortest = { ...again, steps: steps.slice(0, again.done.length) }
      shorter = true
      at = Math.min(at, shortest.steps.length)
    }
  }
  return shortest
}

const hasRenewed = (before: Books, after: Books): boolean =>
  before.subscriptions.some(({ id, current_period_start, ended_at }) => {
    const now = after.subscriptions.find((one) => one.id === id)!
    return now.current_period_start !== current_period_start || (now.ended_at !== null && ended_at === null)
  })

/** Returns the kind of a step as the report counts it. */
const kindOf = (step: Step, { subscriptions }: Books, productOf: (subscription: Subscription) => ProductName): string => {
  const live = subscriptions.findLast(({ ended_at }) => ended_at === null)
  if (step.kind === 'plan') {
    const raises = live && monthlyPriceOf(step.product, live.seats) > monthlyPriceOf(productOf(live), live.seats)
    return `${raises ? 'upgrade' : 'downgrade'} (${step.surface})`
  }
  if (step.kind === 'seats') return `seats (${step.surface})`
  if (step.kind === 'cancel') return `cancel (${step.surface})`
  return { dispute: 'dispute opened', win: 'dispute won', lose: 'dispute lost' }[step.kind as string] ?? step.kind
}
