import type { Frame, PortalPlan, View } from '@bursar/contract'
import type { ReactNode } from 'react'
import { Confirm, Form, Notice, speak } from '../kit.tsx'
import { PlanHead, priceIn, PriceForm } from './portal-price.tsx'
import { Portal } from './portal-shell.tsx'

type Props = { view: Extract<View, { kind: 'portal-subscriptions' }>; frame: Frame }

/** Each subscription and what can be done with it; by a link into one task, only that. */
export const Subscriptions = ({ view, frame }: Props) => {
  const { t } = speak(frame)
  const words = t.portal.manage
  const { shell } = view
  const flow = shell.flow as keyof typeof words.subscriptions.flows | null
  const title = flow === null ? words.subscriptions.title : words.subscriptions.flows[flow]
  const plans = flow === null ? view.plans : view.plans.filter((plan) => !plan.over && taskOf({ view, frame }, plan)[flow] !== null)
  return (
    <Portal frame={frame} shell={shell} section="subscriptions" title={title}>
      <h1>{title}</h1>
      {plans.length === 0 && <p className="empty">{flow === null ? words.subscriptions.none : words.subscriptions.notNow}</p>}
      {plans.map((plan) => (
        <Plan key={plan.subscription.id} view={view} frame={frame} plan={plan} flow={flow} />
      ))}
      {flow !== null && (
        <p>
          <a href={`/${shell.seller.slug}/portal/subscriptions`}>{words.subscriptions.all}</a>
        </p>
      )}
      <p className="soft">{words.zone}</p>
    </Portal>
  )
}

const Plan = ({ view, frame, plan, flow }: Props & { plan: PortalPlan; flow: 'cancel' | 'seats' | 'plan' | null }) => {
  const { t } = speak(frame)
  const words = t.portal.manage
  const { subscription: one } = plan
  const tasks = taskOf({ view, frame }, plan)
  return (
    <section className="card" aria-labelledby={`plan-${one.id}`}>
      <PlanHead frame={frame} plan={plan} />
      {flow === null ? (
        !plan.over && (
          <>
            <Undoing view={view} frame={frame} plan={plan} />
            {tasks.plan && <Folded label={words.subscriptions.changePlan} open={view.wish?.id === one.id && view.wish.what === 'plan'} children={tasks.plan} />}
            {tasks.seats && (
              <Folded label={words.subscriptions.changeSeats} open={view.wish?.id === one.id && view.wish.what === 'seats'} children={tasks.seats} />
            )}
            <div className="grave">
              {tasks.pause && <div className="mild">{tasks.pause}</div>}
              {tasks.cancel}
            </div>
          </>
        )
      ) : (
        <div className="task">{tasks[flow]}</div>
      )}
    </section>
  )
}

const Folded = ({ label, open, children }: { label: string; open: boolean; children: ReactNode }) => (
  <details className="fold" open={open}>
    <summary>{label}</summary>
    {children}
  </details>
)

const Press = ({ view, frame, plan, what, children, className }: Props & { plan: PortalPlan; what: string; children: ReactNode; className?: string }) => (
  <Form frame={frame} action={`/${view.shell.seller.slug}/portal/subscriptions`}>
    <input type="hidden" name="subscription_id" value={plan.subscription.id} />
    {view.shell.flow !== null && <input type="hidden" name="flow" value={view.shell.flow} />}
    <button name="do" value={what} className={className}>
      {children}
    </button>
  </Form>
)

/** What waits, or is about to end, can be taken back until then. */
const Undoing = ({ view, frame, plan }: Props & { plan: PortalPlan }) => {
  const { t, date, money } = speak(frame)
  const words = t.portal.manage
  const { subscription: one } = plan
  const pending = one.pending_update
  const coming = pending && [
    ...(pending.product_id === null
      ? []
      : [
          view.products.some(({ id }) => id === pending.product_id)
            ? words.subscriptions.pendingPlan(view.products.find(({ id }) => id === pending.product_id)!.name)
            : words.subscriptions.otherPlan,
        ]),
    ...(pending.seats === null ? [] : [words.subscriptions.pendingSeats(pending.seats)]),
  ]
  const props = { view, frame, plan }
  return (
    <>
      {pending && coming && (
        <Notice kind="warn">
          <p>{words.waiting(coming.join(', '), date(pending.applies_at))}</p>
          <Press {...props} what="clear">
            {words.subscriptions.clear}
          </Press>
        </Notice>
      )}
      {one.cancel_at_period_end && (
        <Press {...props} what="uncancel" className="primary">
          {words.subscriptions.uncancel}
        </Press>
      )}
      {one.pause_at_period_end && view.rights.pause && (
        <Press {...props} what="unpause">
          {words.subscriptions.unpause}
        </Press>
      )}
      {one.status === 'paused' && !view.rights.pause && <p className="soft">{words.subscriptions.pausedHelp(view.shell.seller.name)}</p>}
      {one.status === 'paused' && view.rights.pause && (
        <div className="mild">
          <Confirm label={words.subscriptions.resume} consequence={words.subscriptions.resumeConsequence(money(one.amount, one.currency))}>
            <Press {...props} what="resume" className="primary">
              {words.subscriptions.resume}
            </Press>
          </Confirm>
        </div>
      )}
    </>
  )
}

/** The tasks that can be done with a subscription now; null where one cannot. */
const taskOf = ({ view, frame }: Props, plan: PortalPlan): Record<'plan' | 'seats' | 'pause' | 'cancel', ReactNode> => {
  const { t, date } = speak(frame)
  const words = t.portal.manage.subscriptions
  const { subscription: one } = plan
  const { rights, shell } = view
  const running = (one.status === 'active' || one.status === 'trialing' || one.status === 'past_due') && !one.cancel_at_period_end
  const end = date(one.current_period_end)
  const form = { frame, action: `/${shell.seller.slug}/portal/subscriptions`, flow: shell.flow, subscription_id: one.id, currency: one.currency }
  const wish = (what: 'seats' | 'plan') => (view.wish?.id === one.id && view.wish.what === what ? view.wish : null)
  const others = view.products.filter(
    ({ id }) =>
      id !== one.product_id &&
      priceIn(
        frame,
        view.products.find((each) => each.id === id)!,
        one.currency,
      ) !== undefined,
  )
  const tiers = one.prices.flatMap((price) => (price.amount_type === 'seat_based' ? [price.seat_tiers] : []))[0]
  const props = { view, frame, plan }
  return {
    plan:
      rights.plan && running ? (
        others.length > 0 ? (
          <PriceForm {...form} wish={wish('plan')} products={others} />
        ) : (
          <p className="soft">{words.noOther}</p>
        )
      ) : null,
    seats:
      rights.seats && running && one.seats !== null && tiers ? (
        <PriceForm
          {...form}
          wish={wish('seats')}
          seats={{ now: one.seats, least: tiers.minimum_seats, most: tiers.maximum_seats }}
          taken={plan.seats ? plan.seats.active + plan.seats.invited : 0}
        />
      ) : null,
    pause:
      rights.pause && one.status === 'active' && running && !one.pause_at_period_end ? (
        <Confirm label={words.pause} consequence={words.pauseConsequence(end)}>
          <Press {...props} what="pause" className="danger">
            {words.pauseNow}
          </Press>
        </Confirm>
      ) : null,
    cancel: running || one.status === 'paused' ? <Cancel {...props} end={end} /> : null,
  }
}

const Cancel = ({ view, frame, plan, end }: Props & { plan: PortalPlan; end: string }) => {
  const words = speak(frame).t.portal.manage.subscriptions
  const { product, status } = plan.subscription
  // A pause has no period to end with.
  const atOnce = status === 'paused'
  const consequence = atOnce ? words.cancelPaused : words.cancelConsequence(end)
  const lost = [
    words.cancelAccess(product.name),
    ...product.benefits.map(({ description }) => description),
    ...(plan.seats && plan.seats.active > 0 ? [words.cancelSeats(plan.seats.active)] : []),
  ]
  const body = (
    <>
      {plan.paying && <p>{words.cancelPaying}</p>}
      <ul>
        {lost.map((one, at) => (
          <li key={at}>{one}</li>
        ))}
      </ul>
      {!atOnce && <p className="soft">{words.undoUntil(end)}</p>}
      <Press view={view} frame={frame} plan={plan} what="cancel" className="danger">
        {atOnce ? words.cancelPausedNow : words.cancelNow(end)}
      </Press>
    </>
  )
  // Where nothing else is on the page, nothing has to be unfolded.
  if (view.shell.flow === 'cancel')
    return (
      <>
        <p>{consequence}</p>
        {body}
      </>
    )
  return (
    <Confirm label={words.cancel} consequence={consequence}>
      {body}
    </Confirm>
  )
}
