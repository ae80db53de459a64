import { CustomerCancellationReason, updatePortalSubscription } from '@bursar/contract'
import type { Flow, PortalChoices, PortalProduct, PortalShell, PortalSubscription } from '@bursar/views'
import { findSwitchProblem } from '../../modules/billing/calc/switches.ts'
import type { Page, PageAnswer, Platform } from '../../modules/handlers.ts'
import { complaintsOf } from '../visits.ts'
import { flowIn, withFlow, type Visit } from './entering.ts'
import { bodyOf, doneAt, freeSeats, hasSeen, offerOf, pagesAt, planOf, priceOf, subscriptionsOf, wantedAt, wantedIn, type Wanted } from './looking.ts'

/** Returns the plans that a subscription can change to, by the same rule as the API. */
const choicesOf = (one: PortalSubscription, products: readonly PortalProduct[], behavior: string): PortalChoices => {
  const others = products.filter(({ id }) => id !== one.product_id)
  const problems = new Map(others.map((product) => [product, findSwitchProblem(one, product, behavior)]))
  return {
    products: others.filter((product) => problems.get(product) === undefined),
    beyond: others.flatMap((product) => {
      const bounds = problems.get(product)?.bounds
      return bounds ? [{ name: product.name, ...bounds }] : []
    }),
  }
}

/** The request body of each subscription action, and the key of its confirmation message. */
const asked = {
  cancel: [{ cancel_at_period_end: true }, 'canceled'],
  uncancel: [{ cancel_at_period_end: false }, 'uncanceled'],
  pause: [{ pause_at_period_end: true }, 'pausing'],
  unpause: [{ pause_at_period_end: false }, 'not_pausing'],
  resume: [{ resume: true }, 'resumed'],
  clear: [{ pending_update: null }, 'change_dropped'],
} as const

/** Reads the reason of a cancellation. Both fields are optional. A reason that the API does not know is not sent. */
const farewellIn = (form: URLSearchParams) => {
  const reason = CustomerCancellationReason.safeParse(form.get('reason'))
  const comment = (form.get('comment') ?? '').trim()
  return { ...(reason.success ? { cancellation_reason: reason.data } : {}), ...(comment === '' ? {} : { cancellation_comment: comment }) }
}

/** The subscriptions page with its actions, or a single task that a link opened. */
export const subscriptionsPages = (platform: Platform): Page[] => {
  const show = async (visit: Visit, more: { wanted?: Wanted; complaints?: PortalShell['complaints']; flow?: Flow | null } = {}): Promise<PageAnswer> => {
    const { api, call } = visit
    const flow = more.flow ?? flowIn(call.query, 'subscriptions')
    const wanted = more.wanted ?? wantedAt(call)
    const only = call.query.get('subscription_id') ?? call.form.get('subscription_id')
    const [subscriptions, { rights, products, behavior }] = await Promise.all([subscriptionsOf(api), offerOf(visit)])
    const shown = flow !== null && only !== null && subscriptions.some(({ id }) => id === only) ? subscriptions.filter(({ id }) => id === only) : subscriptions
    const [plans, wish] = await Promise.all([
      Promise.all(shown.map(async (one) => ({ ...(await planOf(api, one, platform.clock.wall())), choices: choicesOf(one, products, behavior) }))),
      wanted ? priceOf(api, wanted) : null,
    ])
    const shell: PortalShell = { ...visit.shell, flow, complaints: more.complaints ?? [] }
    return {
      view: { kind: 'portal-subscriptions', shell, plans, rights, products, wish: wish && { ...wish, id: wanted!.id, what: wanted!.what } },
      script: true,
      ...(more.complaints?.length ? { status: 422 } : {}),
      here: `/${shell.seller.slug}/portal/subscriptions${withFlow(flow)}`,
    }
  }

  const take = async (visit: Visit, form: URLSearchParams): Promise<PageAnswer> => {
    const { api } = visit
    const flow = flowIn(form, 'subscriptions')
    const wish = form.get('do') ?? ''
    if (wish === 'price' || wish === 'change') {
      const wanted = wantedIn(form)
      const changed = wish === 'change' ? await changeAsSeen(visit, wanted) : undefined
      return changed === true ? doneAt(visit, '/subscriptions', 'changed', flow) : show(visit, { wanted, flow, ...(changed ? { complaints: changed } : {}) })
    }
    if (wish === 'free') {
      const freed = await freeSeats(visit, form, '/subscriptions')
      return Array.isArray(freed) ? show(visit, { wanted: wantedIn(form), flow, complaints: freed }) : freed
    }
    if (!Object.hasOwn(asked, wish)) return show(visit, { flow })
    const [change, done] = asked[wish as keyof typeof asked]
    const body = wish === 'cancel' ? { ...change, ...farewellIn(form) } : change
    const answer = await api.send(updatePortalSubscription, { params: { id: form.get('subscription_id') ?? '' }, body })
    if (answer.status !== 200) return show(visit, { flow, complaints: complaintsOf(answer) })
    // Canceling a paused subscription ends it at once.
    return doneAt(visit, '/subscriptions', answer.body.ended_at === null ? done : 'ended', flow)
  }
  return pagesAt(platform, '/subscriptions', (visit) => show(visit), take)
}

/**
 * Changes a subscription if the price is not higher than the displayed one. Returns true on success, or the errors.
 * Returns undefined if the current price must be shown first.
 */
export const changeAsSeen = async ({ api, call }: Visit, wanted: Wanted): Promise<true | PortalShell['complaints'] | undefined> => {
  if (!hasSeen(call.form, await priceOf(api, wanted))) return undefined
  const answer = await api.send(updatePortalSubscription, { params: { id: wanted.id }, body: bodyOf(wanted) })
  return answer.status === 200 ? true : complaintsOf(answer).map(({ type, msg }) => ({ loc: [], type, msg }))
}
