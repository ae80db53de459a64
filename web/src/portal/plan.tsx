import type { Frame, PortalPlan, PortalPrice, PortalProduct, PortalSeatCount } from '@bursar/views'
import { speak, Status, Thumb, textsIn, usagePrices } from '../kit/index.ts'
import { Dated } from './dated.tsx'
import { portalTexts } from './texts.ts'

/** Returns the billing interval in words: "a month", "every 3 months". */
export const everyOf = (
  frame: Frame,
  { recurring_interval: interval, recurring_interval_count: count }: Pick<PortalPrice, 'recurring_interval' | 'recurring_interval_count'>,
) => speak(frame).t.per[interval](count)

/** Describes the price of a product and of its usage. Undefined if it has no price in the currency. */
export const priceIn = (frame: Frame, product: PortalProduct, currency: string): string | undefined => {
  const usage = usagePrices(frame, product, product.prices, currency).map(({ meter, price }) => `${meter}: ${price}`)
  const upfront = upfrontPriceIn(frame, product, currency)
  // A product with metered prices only has no other price. A product whose price the customer chooses has one that cannot be shown.
  if (upfront === undefined)
    return product.prices.every(({ amount_type }) => amount_type === 'metered_unit') && usage.length > 0 ? usage.join(' + ') : undefined
  return [upfront, ...usage].join(' + ')
}

/** Describes the price that does not depend on usage. */
const upfrontPriceIn = (frame: Frame, product: PortalProduct, currency: string): string | undefined => {
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
        <div className="named">
          <Thumb medias={one.product.medias} />
          <h2 id={`plan-${one.id}`}>{one.product.name}</h2>
        </div>
        <PlanStatus frame={frame} plan={plan} />
      </div>
      <p className="figure">
        {money(one.amount, one.currency)} <span className="soft">{everyOf(frame, one)}</span>
      </p>
      <PlanUsage frame={frame} plan={plan} />
      <PlanNext frame={frame} plan={plan} />
      {plan.seats && <SeatBar frame={frame} count={plan.seats} />}
    </>
  )
}

/** True if usage of the subscription is charged now. Usage during a trial is free. */
export const chargesUsage = ({ status, prices }: PortalPlan['subscription']): boolean =>
  status !== 'trialing' && prices.some(({ amount_type }) => amount_type === 'metered_unit')

/** The price of usage, and its cost in this period so far. Nothing without metered prices. */
const PlanUsage = ({ frame, plan: { subscription: one, over } }: { frame: Frame; plan: PortalPlan }) => {
  const { money, number } = speak(frame)
  const words = textsIn(frame, portalTexts)
  const costs = usagePrices(frame, one.product, one.prices, one.currency)
  if (costs.length === 0 || over) return null
  return (
    <ul className="metered">
      {costs.map(({ id, meter, price }) => {
        const used = chargesUsage(one) ? one.meters.find((each) => each.id === id) : undefined
        return (
          <li key={id}>
            {words.usageCosts(meter, price)}{' '}
            {used && <span className="soft">{words.usedSoFar(number(used.consumed_units), money(used.amount, one.currency))}</span>}
          </li>
        )
      })}
    </ul>
  )
}

/** The next charge or change, in sentences. */
const PlanNext = ({ frame, plan: { subscription, next } }: { frame: Frame; plan: PortalPlan }) => {
  const { money } = speak(frame)
  const dated = (at: string, text: (day: string) => string) => <Dated frame={frame} at={at} text={text} />
  const words = textsIn(frame, portalTexts)
  const { status, currency, amount, current_period_end, ends_at, ended_at, trial_end, resumes_at } = subscription
  // The next charge contains no usage that is still to come.
  const isMetered = chargesUsage(subscription)
  if (ended_at !== null) return <p className="soft">{dated(ended_at, words.endedOn)}</p>
  if (subscription.cancel_at_period_end) return <p>{dated(ends_at ?? current_period_end, isMetered ? words.endsWithUsage : words.endsOn)}</p>
  if (status === 'paused')
    return (
      <p>
        {words.paused} {resumes_at && dated(resumes_at, words.resumesOn)}
      </p>
    )
  return (
    <>
      {status === 'trialing' && trial_end && <p>{dated(trial_end, words.trialUntil)}</p>}
      {subscription.pause_at_period_end ? (
        <p>
          {dated(current_period_end, isMetered ? words.pausesWithUsage : words.pausesOn)} {resumes_at && dated(resumes_at, words.resumesOn)}
        </p>
      ) : next === null ? (
        <p>
          {dated(current_period_end, (day) => words.nextUnknown(day, money(amount, currency)))} {isMetered && words.andUsage}
        </p>
      ) : next.charge_amount === 0 ? (
        <p>{dated(next.at, isMetered ? words.nextUsage : words.nextNothing)}</p>
      ) : (
        <p>
          {dated(next.at, (day) => words.next(day, money(next.charge_amount, currency)))}
          {next.tax_amount > 0 && <span className="soft"> ({words.withTax(money(next.tax_amount, currency))})</span>}
          {isMetered && `. ${words.andUsage}`}
        </p>
      )}
    </>
  )
}
