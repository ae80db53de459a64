import type { Frame, View } from '@bursar/views'
import type { ReactNode } from 'react'
import { Confirm, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { chargesUsage, PlanHead } from '../plan.tsx'
import { PriceForm } from '../price.tsx'
import { Portal } from '../shell.tsx'
import { Dated, Zone } from '../dated.tsx'
import { portalTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<View, { kind: 'portal-subscriptions' }>; frame: Frame }
type Plan = Props['view']['plans'][number]

/** The subscriptions with their actions. With a task link, only that task. */
export const Subscriptions = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { shell } = view
  const flow = shell.flow as keyof typeof en.flows | null
  const title = flow === null ? words.title : words.flows[flow]
  const plans = flow === null ? view.plans : view.plans.filter((plan) => !plan.over && taskOf({ view, frame }, plan)[flow] !== null)
  return (
    <Portal frame={frame} shell={shell} section="subscriptions" title={title}>
      <h1>{title}</h1>
      {plans.length === 0 && <p className="empty">{flow === null ? words.none : words.notNow}</p>}
      {plans.map((plan) => (
        <PlanCard key={plan.subscription.id} view={view} frame={frame} plan={plan} flow={flow} />
      ))}
      {flow !== null && (
        <p>
          <a href={`/${shell.seller.slug}/portal/subscriptions`}>{words.all}</a>
        </p>
      )}
      <Zone frame={frame} />
    </Portal>
  )
}

const PlanCard = ({ view, frame, plan, flow }: Props & { plan: Plan; flow: 'cancel' | 'seats' | 'plan' | null }) => {
  const words = textsIn(frame, texts)
  const { subscription: one } = plan
  const tasks = taskOf({ view, frame }, plan)
  return (
    <section className="card" aria-labelledby={`plan-${one.id}`}>
      <PlanHead frame={frame} plan={plan} />
      {flow === null ? (
        !plan.over && (
          <>
            <Undoing view={view} frame={frame} plan={plan} />
            {tasks.plan && <Folded label={words.changePlan} open={view.wish?.id === one.id && view.wish.what === 'plan'} children={tasks.plan} />}
            {tasks.seats && <Folded label={words.changeSeats} open={view.wish?.id === one.id && view.wish.what === 'seats'} children={tasks.seats} />}
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

const Press = ({ view, frame, plan, what, children, className }: Props & { plan: Plan; what: string; children: ReactNode; className?: string }) => (
  <Form frame={frame} action={`/${view.shell.seller.slug}/portal/subscriptions`}>
    <input type="hidden" name="subscription_id" value={plan.subscription.id} />
    {view.shell.flow !== null && <input type="hidden" name="flow" value={view.shell.flow} />}
    <button name="do" value={what} className={className}>
      {children}
    </button>
  </Form>
)

/** A pending change, pause or cancellation, which can be undone until it takes effect. */
const Undoing = ({ view, frame, plan }: Props & { plan: Plan }) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, portalTexts)
  const { subscription: one } = plan
  const pending = one.pending_update
  const coming = pending && [
    ...(pending.product_id === null
      ? []
      : [
          view.products.some(({ id }) => id === pending.product_id)
            ? words.pendingPlan(view.products.find(({ id }) => id === pending.product_id)!.name)
            : words.otherPlan,
        ]),
    ...(pending.seats === null ? [] : [words.pendingSeats(pending.seats)]),
  ]
  const props = { view, frame, plan }
  return (
    <>
      {pending && coming && (
        <Notice kind="warn">
          <p>
            <Dated frame={frame} at={pending.applies_at} text={(day) => shared.waiting(coming.join(', '), day)} />
          </p>
          <Press {...props} what="clear">
            {words.clear}
          </Press>
        </Notice>
      )}
      {one.cancel_at_period_end && (
        <Press {...props} what="uncancel" className="primary">
          {words.uncancel}
        </Press>
      )}
      {one.pause_at_period_end && view.rights.pause && (
        <Press {...props} what="unpause">
          {words.unpause}
        </Press>
      )}
      {one.status === 'paused' && !view.rights.pause && <p className="soft">{words.pausedHelp(view.shell.seller.name)}</p>}
      {one.status === 'paused' && view.rights.pause && (
        <div className="mild">
          <Confirm label={words.resume} consequence={words.resumeConsequence(money(one.amount, one.currency))}>
            <Press {...props} what="resume" className="primary">
              {words.resume}
            </Press>
          </Confirm>
        </div>
      )}
    </>
  )
}

/** Returns the form of each task for a subscription. Null if the task is not possible now. */
const taskOf = ({ view, frame }: Props, plan: Plan): Record<'plan' | 'seats' | 'pause' | 'cancel', ReactNode> => {
  const words = textsIn(frame, texts)
  const { subscription: one } = plan
  const { rights, shell } = view
  const running = (one.status === 'active' || one.status === 'trialing' || one.status === 'past_due') && !one.cancel_at_period_end
  const end = one.current_period_end
  const base = `/${shell.seller.slug}/portal`
  const form = {
    frame,
    action: `${base}/subscriptions`,
    billing: `${base}/billing`,
    flow: shell.flow,
    subscription_id: one.id,
    currency: one.currency,
  }
  const wish = (what: 'seats' | 'plan') => (view.wish?.id === one.id && view.wish.what === what ? view.wish : null)
  const { products, beyond } = plan.choices
  const tiers = one.prices.flatMap((price) => (price.amount_type === 'seat_based' ? [price.seat_tiers] : []))[0]
  const props = { view, frame, plan }
  return {
    plan:
      rights.plan && running ? (
        products.length > 0 ? (
          <PriceForm {...form} wish={wish('plan')} products={products} beyond={beyond} />
        ) : (
          <>
            <p className="soft">{words.noOther}</p>
            {beyond.map(({ name, minimum, maximum }) => (
              <p key={name} className="soft">
                {textsIn(frame, portalTexts).price.beyond(name, minimum, maximum)}
              </p>
            ))}
          </>
        )
      ) : null,
    seats:
      rights.seats && running && one.seats !== null && tiers ? (
        <PriceForm
          {...form}
          wish={wish('seats')}
          seats={{ now: one.seats, least: tiers.minimum_seats, most: tiers.maximum_seats }}
          removable={plan.removable}
          reader={shell.reader.email}
          taken={plan.seats ? plan.seats.active + plan.seats.invited : 0}
        />
      ) : null,
    pause:
      rights.pause && one.status === 'active' && running && !one.pause_at_period_end ? (
        <Confirm label={words.pause} consequence={<Dated frame={frame} at={end} text={words.pauseConsequence} />}>
          <Press {...props} what="pause" className="danger">
            {words.pauseNow}
          </Press>
        </Confirm>
      ) : null,
    cancel: running || one.status === 'paused' ? <Cancel {...props} end={end} /> : null,
  }
}

/** The reasons of a cancellation, as the API names them, in the order of the form. */
const reasons = ['too_expensive', 'missing_features', 'switched_service', 'unused', 'customer_service', 'low_quality', 'too_complex', 'other'] as const

const Cancel = ({ view, frame, plan, end }: Props & { plan: Plan; end: string }) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { shell } = view
  const base = `/${shell.seller.slug}/portal`
  const { product, status } = plan.subscription
  // A paused subscription has no period, so it ends at once.
  const atOnce = status === 'paused'
  const consequence = atOnce ? (
    words.cancelPaused
  ) : (
    <Dated frame={frame} at={end} text={chargesUsage(plan.subscription) ? words.cancelMetered : words.cancelConsequence} />
  )
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
      {!atOnce && (
        <p className="soft">
          <Dated frame={frame} at={end} text={words.undoUntil} />
        </p>
      )}
      <Form frame={frame} action={`${base}/subscriptions`} className="farewell">
        <input type="hidden" name="subscription_id" value={plan.subscription.id} />
        {shell.flow !== null && <input type="hidden" name="flow" value={shell.flow} />}
        <fieldset>
          <legend>
            {words.reason} <span className="soft">({t.optional})</span>
          </legend>
          {reasons.map((reason) => (
            <label key={reason} className="choice">
              <input type="radio" name="reason" value={reason} />
              <span>{words.reasons[reason]}</span>
            </label>
          ))}
        </fieldset>
        <div className="field">
          <label htmlFor={`comment-${plan.subscription.id}`}>
            {words.comment(shell.seller.name)} <span className="soft">({t.optional})</span>
          </label>
          <textarea id={`comment-${plan.subscription.id}`} name="comment" rows={3} maxLength={2000} autoComplete="off" />
        </div>
        <div className="grave">
          <button name="do" value="cancel" className="danger">
            {atOnce ? words.cancelPausedNow : <Dated frame={frame} at={end} text={words.cancelNow} />}
          </button>
          <a className="neutral" href={shell.flow === null ? `${base}/subscriptions` : (shell.return_url ?? `${base}/overview`)}>
            {words.keep}
          </a>
        </div>
      </Form>
    </>
  )
  // If a link opened the page for a cancellation, the form is shown at once instead of inside a collapsed section.
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
