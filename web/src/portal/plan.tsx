import type { Frame, PortalPlan, PortalPrice, PortalProduct, PortalSeatCount } from '@bursar/views'
import { speak, Status, textsIn } from '../kit/index.ts'
import { portalTexts } from './texts.ts'

/** Returns the billing interval in words: "a month", "every 3 months". */
export const everyOf = (
  frame: Frame,
  { recurring_interval: interval, recurring_interval_count: count }: Pick<PortalPrice, 'recurring_interval' | 'recurring_interval_count'>,
) => speak(frame).t.per[interval](count)

/** Describes the price of a product. Undefined if it has no price in the currency. */
export const priceIn = (frame: Frame, product: PortalProduct, currency: string): string | undefined => {
  const { money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const price = product.prices.find((one) => one.price_currency === currency && one.amount_type !== 'metered_unit')
  if (!price || price.amount_type === 'custom' || product.recurring_interval === null) return undefined
  const every = everyOf(frame, { recurring_interval: product.recurring_interval, recurring_interval_count: product.recurring_interval_count ?? 1 })
  if (price.amount_type === 'fixed') return price.price_amount === 0 ? shared.free : `${money(price.price_amount, currency)} ${every}`
  if (price.amount_type === 'seat_based')
    return `${shared.aSeat(money(Math.min(...price.seat_tiers.tiers.map((tier) => tier.price_per_seat)), currency))} ${every}`
  return shared.free
}

/**
 * The number of used seats, as text and as a bar. The lengths of the bar are attributes, because the content security
 * policy forbids inline styles.
 */
export const SeatBar = ({ frame, count: { total, active, invited } }: { frame: Frame; count: PortalSeatCount }) => {
  const { bar } = textsIn(frame, portalTexts)
  const part = (count: number) => (100 * count) / Math.max(1, total)
  return (
    <div className="seatbar">
      <p>
        <strong>{bar.used(active + invited, total)}</strong> <span className="soft">{bar.label(active, invited, Math.max(0, total - active - invited))}</span>
      </p>
      <svg aria-hidden="true" viewBox="0 0 100 4" preserveAspectRatio="none">
        <rect className="free" width="100" height="4" />
        <rect className="invited" width={part(active + invited)} height="4" />
        <rect className="active" width={part(active)} height="4" />
      </svg>
    </div>
  )
}

/** The status of a subscription, as a word. */
const PlanStatus = ({
  frame,
  plan: {
    subscription: { status, cancel_at_period_end, pause_at_period_end },
    over,
  },
}: {
  frame: Frame
  plan: PortalPlan
}) => {
  const words = textsIn(frame, portalTexts).status
  if (cancel_at_period_end && !over) return <Status kind="wait">{words.ending}</Status>
  if (pause_at_period_end) return <Status kind="wait">{words.pausing}</Status>
  const kind = status === 'active' || status === 'trialing' ? 'good' : status === 'past_due' ? 'bad' : 'off'
  return <Status kind={kind}>{words[status]}</Status>
}

/** The head of a subscription card: name, status, price, next charge and seats. */
export const PlanHead = ({ frame, plan }: { frame: Frame; plan: PortalPlan }) => {
  const { money } = speak(frame)
  const { subscription: one } = plan
  return (
    <>
      <div className="heading">
        <h2 id={`plan-${one.id}`}>{one.product.name}</h2>
        <PlanStatus frame={frame} plan={plan} />
      </div>
      <p className="figure">
        {money(one.amount, one.currency)} <span className="soft">{everyOf(frame, one)}</span>
      </p>
      <PlanNext frame={frame} plan={plan} />
      {plan.seats && <SeatBar frame={frame} count={plan.seats} />}
    </>
  )
}

/** The next charge or change, in sentences. */
const PlanNext = ({ frame, plan: { subscription, next } }: { frame: Frame; plan: PortalPlan }) => {
  const { date, money } = speak(frame)
  const words = textsIn(frame, portalTexts)
  const { status, currency, amount, current_period_end, ends_at, ended_at, trial_end, resumes_at } = subscription
  if (ended_at !== null) return <p className="soft">{words.endedOn(date(ended_at))}</p>
  if (subscription.cancel_at_period_end) return <p>{words.endsOn(date(ends_at ?? current_period_end))}</p>
  if (status === 'paused')
    return (
      <p>
        {words.paused} {resumes_at && words.resumesOn(date(resumes_at))}
      </p>
    )
  return (
    <>
      {status === 'trialing' && trial_end && <p>{words.trialUntil(date(trial_end))}</p>}
      {subscription.pause_at_period_end ? (
        <p>
          {words.pausesOn(date(current_period_end))} {resumes_at && words.resumesOn(date(resumes_at))}
        </p>
      ) : next === null ? (
        <p>{words.nextUnknown(date(current_period_end), money(amount, currency))}</p>
      ) : next.charge_amount === 0 ? (
        <p>{words.nextNothing(date(next.at))}</p>
      ) : (
        <p>
          {words.next(date(next.at), money(next.charge_amount, currency))}{' '}
          {next.tax_amount > 0 && <span className="soft">({words.withTax(money(next.tax_amount, currency))})</span>}
        </p>
      )}
    </>
  )
}
