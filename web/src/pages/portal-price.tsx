import type { Frame, PortalPlan, PortalPrice, PortalProduct, PortalSeat, PortalSeatCount, PortalWish } from '@bursar/contract'
import { Form, said, speak, Status } from '../kit.tsx'

/** "a month", "every 3 months". */
export const everyOf = (
  frame: Frame,
  { recurring_interval: interval, recurring_interval_count: count }: Pick<PortalPrice, 'recurring_interval' | 'recurring_interval_count'>,
) => speak(frame).t.per[interval](count)

/** What a product costs, as a buyer would say it; nothing where it cannot be paid for in the currency. */
export const priceIn = (frame: Frame, product: PortalProduct, currency: string): string | undefined => {
  const { t, money } = speak(frame)
  const price = product.prices.find((one) => one.price_currency === currency && one.amount_type !== 'metered_unit')
  if (!price || price.amount_type === 'custom' || product.recurring_interval === null) return undefined
  const every = everyOf(frame, { recurring_interval: product.recurring_interval, recurring_interval_count: product.recurring_interval_count ?? 1 })
  if (price.amount_type === 'fixed') return price.price_amount === 0 ? t.portal.manage.free : `${money(price.price_amount, currency)} ${every}`
  if (price.amount_type === 'seat_based')
    return `${t.portal.manage.aSeat(money(Math.min(...price.seat_tiers.tiers.map((tier) => tier.price_per_seat)), currency))} ${every}`
  return t.portal.manage.free
}

/** How many seats are taken, in words and as a bar whose lengths are attributes. */
export const SeatBar = ({ frame, count: { total, active, invited } }: { frame: Frame; count: PortalSeatCount }) => {
  const { bar } = speak(frame).t.portal.manage
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

/** How a subscription stands, in a word. */
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
  const words = speak(frame).t.portal.manage.status
  if (cancel_at_period_end && !over) return <Status kind="wait">{words.ending}</Status>
  if (pause_at_period_end) return <Status kind="wait">{words.pausing}</Status>
  const kind = status === 'active' || status === 'trialing' ? 'good' : status === 'past_due' ? 'bad' : 'off'
  return <Status kind={kind}>{words[status]}</Status>
}

/** What a card of a subscription begins with: its name, how it stands, what it costs, what comes next, and its seats. */
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

/** What comes next, in sentences. */
const PlanNext = ({ frame, plan: { subscription, next } }: { frame: Frame; plan: PortalPlan }) => {
  const { t, date, money } = speak(frame)
  const words = t.portal.manage
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

interface PriceFormProps {
  readonly frame: Frame
  readonly action: string
  readonly flow: string | null
  readonly subscription_id: string
  readonly currency?: string
  readonly wish: PortalWish | null
  /** Among which a plan is chosen; without, it is about seats. */
  readonly products?: readonly PortalProduct[]
  readonly seats?: { readonly now: number; readonly least: number; readonly most: number | null }
  /** Who could be taken back first. */
  readonly people?: readonly PortalSeat[]
  /** How many seats somebody has, or is invited to. */
  readonly taken?: number
}

/** A change and its price: the button to make it is there only beside the price of exactly this. */
export const PriceForm = ({ frame, action, flow, subscription_id, currency = '', wish, products, seats, people = [], taken = 0 }: PriceFormProps) => {
  const words = speak(frame).t.portal.manage.price
  const id = `${products ? 'plan' : 'seats'}-${subscription_id}`
  const complaint = wish?.complaints[0]
  const wrong = complaint && said(frame, complaint)
  const described = [seats && `${id}-hint`, complaint && `${id}-error`].filter(Boolean).join(' ') || undefined
  const common = { id: `${id}-value`, name: 'value', 'data-live': `${id}-show`, 'aria-describedby': described, 'aria-invalid': complaint ? true : undefined }
  return (
    <Form frame={frame} action={action} swap={`#${id}`} className="pricing">
      <input type="hidden" name="subscription_id" value={subscription_id} />
      <input type="hidden" name="what" value={products ? 'plan' : 'seats'} />
      {flow !== null && <input type="hidden" name="flow" value={flow} />}
      <div className="asking">
        <div className="field">
          <label htmlFor={`${id}-value`}>{products ? words.plan : words.seats}</label>
          {seats && (
            <p id={`${id}-hint`} className="soft">
              {words.seatsHint(seats.least, seats.most)}
            </p>
          )}
          {products ? (
            <select {...common} defaultValue={wish?.value}>
              {products.map((product) => (
                <option key={product.id} value={product.id}>
                  {product.name} – {priceIn(frame, product, currency)}
                </option>
              ))}
            </select>
          ) : (
            <input {...common} type="number" inputMode="numeric" min={1} max={10_000} required defaultValue={wish?.value ?? seats?.now} />
          )}
        </div>
        <button id={`${id}-show`} name="do" value="price">
          {words.show}
        </button>
      </div>
      <div id={id} className="priced" data-says={wish?.price ? saidOf(frame, wish.price) : wrong}>
        {complaint && (
          <p id={`${id}-error`} className="error">
            {wrong}
          </p>
        )}
        {complaint?.type === 'SeatsAlreadyAssigned' && seats && <Removable frame={frame} people={people} count={taken - Number(wish?.value)} />}
        {wish?.price ? (
          <>
            <PriceLines frame={frame} price={wish.price} />
            <input type="hidden" name="seen" value={wish.seen} />
            <button className="primary" name="do" value="change" data-whole="">
              {products
                ? words.changePlan(products.find((one) => one.id === wish.value)?.name ?? words.change)
                : words.changeSeats(wish.price.seats ?? Number(wish.value))}
            </button>
          </>
        ) : (
          <>
            {!complaint && <p className="soft">{words.first_see}</p>}
            <button className="primary" disabled>
              {words.change}
            </button>
          </>
        )}
      </div>
    </Form>
  )
}

/** Whom to take a seat back from first: those who have not come yet, then the latest. */
const Removable = ({ frame, people, count }: { frame: Frame; people: readonly PortalSeat[]; count: number }) => {
  const words = speak(frame).t.portal.manage
  const holds = ({ status, invitation_token_expires_at: until }: PortalSeat) =>
    status === 'claimed' || (status === 'pending' && (until === null || new Date(until) > frame.now))
  const first = people
    .filter(holds)
    .toSorted((a, b) => Number(a.status === 'claimed') - Number(b.status === 'claimed') || b.created_at.localeCompare(a.created_at))
  if (!(count > 0)) return null
  return (
    <div className="soft">
      <p>{words.price.removeFirst(count)}</p>
      <ul>
        {first.slice(0, 5).map((seat) => (
          <li key={seat.id}>
            <a href={`#seat-${seat.id}`}>{seat.customer_email ?? seat.email}</a>
            {seat.status === 'pending' && ` (${words.team.statuses.invited})`}
          </li>
        ))}
      </ul>
    </div>
  )
}

interface Said {
  readonly now: string
  readonly from: string
  readonly next: string
  readonly counts: string | null
}

/** The three lines: what now, what from when on, and how many. */
const linesOf = (frame: Frame, price: PortalPrice): Said => {
  const { t, date, money } = speak(frame)
  const words = t.portal.manage.price
  const { now, next, currency, seats } = price
  const cash = (amount: number) => money(amount, currency)
  const tax = (amount: number) => (amount > 0 ? ` (${t.portal.manage.withTax(cash(amount))})` : '')
  const later = next !== null && price.applies_at >= next.at
  return {
    now:
      now === null || (now.charge_amount === 0 && now.total_amount >= 0)
        ? words.nothingNow
        : now.total_amount < 0
          ? words.credit(cash(0 - now.total_amount))
          : `${cash(now.charge_amount)}${tax(now.tax_amount)} ${now.lines.some((line) => line.proration) ? words.restOf : ''}`.trim(),
    from: next === null ? '' : words.from(date(next.at)),
    next:
      next === null
        ? words.noNext
        : next.lines.some((line) => line.proration)
          ? words.first(`${cash(next.charge_amount)}${tax(next.tax_amount)}`)
          : words.next(`${cash(next.charge_amount)}${tax(next.tax_amount)}`, everyOf(frame, price)),
    counts:
      seats === null ? null : later ? words.seatsLater(t.portal.manage.seats(seats), date(price.applies_at)) : words.seatsNow(t.portal.manage.seats(seats)),
  }
}

const saidOf = (frame: Frame, price: PortalPrice): string => {
  const { price: words } = speak(frame).t.portal.manage
  const { now, from, next, counts } = linesOf(frame, price)
  return [`${words.now}: ${now}`, `${from}: ${next}`, counts && `${words.counts}: ${counts}`].filter(Boolean).join('. ')
}

const PriceLines = ({ frame, price }: { frame: Frame; price: PortalPrice }) => {
  const { t, money } = speak(frame)
  const words = t.portal.manage.price
  const { now, from, next, counts } = linesOf(frame, price)
  const charge = price.now ?? price.next
  return (
    <>
      <dl className="price">
        <div>
          <dt>{words.now}</dt>
          <dd>{now}</dd>
        </div>
        {price.next && (
          <div>
            <dt>{from}</dt>
            <dd>{next}</dd>
          </div>
        )}
        {counts && (
          <div>
            <dt>{words.counts}</dt>
            <dd>{counts}</dd>
          </div>
        )}
      </dl>
      {charge && charge.lines.length > 0 && (
        <details>
          <summary>{words.how}</summary>
          <table className="sums">
            <tbody>
              {[
                ...charge.lines.map((line) => [line.label, line.amount] as const),
                ...(charge.discount_amount > 0 ? [[words.discount, 0 - charge.discount_amount] as const] : []),
                ...(charge.tax_amount !== 0 ? [[words.tax, charge.tax_amount] as const] : []),
                ...(charge.applied_balance_amount !== 0 ? [[words.balance, charge.applied_balance_amount] as const] : []),
                [words.due, charge.charge_amount] as const,
              ].map(([label, amount], at) => (
                <tr key={`${label}${at}`}>
                  <th scope="row">{label}</th>
                  <td className="amount">{money(amount, price.currency)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </>
  )
}
