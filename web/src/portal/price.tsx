import { mostRemovable, type Frame, type PortalChoices, type PortalPrice, type PortalProduct, type PortalSeat, type PortalWish } from '@bursar/views'
import { Form, said, speak, textsIn, usagePrices } from '../kit/index.ts'
import { Dated } from './dated.tsx'
import { everyOf, priceIn } from './plan.tsx'
import { isTaxIncluded, Sums, sumsOf } from './sums.tsx'
import { portalTexts } from './texts.ts'

interface PriceFormProps {
  readonly frame: Frame
  readonly action: string
  /** The page for adding a payment method. */
  readonly billing: string
  readonly flow: string | null
  readonly subscription_id: string
  readonly currency?: string
  readonly wish: PortalWish | null
  /** The plans to choose from. If absent, the form changes the number of seats. */
  readonly products?: readonly PortalProduct[]
  readonly seats?: { readonly now: number; readonly least: number; readonly most: number | null }
  /** The seats that can be taken back. If their number is reduced below the taken seats, the form asks which ones to take back. */
  readonly removable?: readonly PortalSeat[]
  /** The address of the reader, to mark the own seat. */
  readonly reader?: string
  /** Plans that the current number of seats excludes. */
  readonly beyond?: PortalChoices['beyond']
  /** The number of claimed and invited seats. */
  readonly taken?: number
}

/** The form for a subscription change. The button that makes the change is shown only together with its exact price. */
export const PriceForm = ({
  frame,
  action,
  billing,
  flow,
  subscription_id,
  currency = '',
  wish,
  products,
  seats,
  removable = [],
  reader = '',
  beyond = [],
  taken = 0,
}: PriceFormProps) => {
  const { price: words, addMethod } = textsIn(frame, portalTexts)
  const id = `${products ? 'plan' : 'seats'}-${subscription_id}`
  const complaint = wish?.complaints[0]
  const wrong = complaint && said(frame, complaint)
  const chosen = wish && products?.find((one) => one.id === wish.value)
  const usage = chosen ? usagePrices(frame, chosen, chosen.prices, currency).map(({ meter, price }) => `${meter}: ${price}`) : []
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
                  {[product.name, priceIn(frame, product, currency)].filter(Boolean).join(' – ')}
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
      {beyond.map((plan) => (
        <p key={plan.name} className="soft">
          {words.beyond(plan.name, plan.minimum, plan.maximum)}
        </p>
      ))}
      <div id={id} className="priced" data-says={wish?.price ? saidOf(frame, wish.price, usage) : wrong}>
        {complaint && (
          <p id={`${id}-error`} className="error">
            {wrong} {complaint.type === 'PaymentMethodRequired' && <a href={billing}>{addMethod}</a>}
          </p>
        )}
        {complaint?.type === 'SeatsAlreadyAssigned' && seats && (
          <Removable frame={frame} seats={removable} count={taken - Number(wish?.value)} reader={reader} team={billing.replace(/billing$/, 'team')} />
        )}
        {wish?.price ? (
          <>
            <PriceLines frame={frame} price={wish.price} usage={usage} />
            <input type="hidden" name="seen" value={wish.seen} />
            <button className="primary" name="do" value="change" data-whole="">
              {products ? words.changePlan(chosen?.name ?? words.change) : words.changeSeats(wish.price.seats ?? Number(wish.value))}
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

/** Asks which seats to take back before their number can fall. The same form sends the choice. */
const Removable = ({ frame, seats, count, reader, team }: { frame: Frame; seats: readonly PortalSeat[]; count: number; reader: string; team: string }) => {
  const words = textsIn(frame, portalTexts)
  if (!(count > 0) || seats.length === 0) return null
  return (
    <fieldset className="removable">
      <legend>{words.price.removeFirst(count)}</legend>
      <p className="soft">{words.price.removeHint}</p>
      {seats.slice(0, mostRemovable).map((seat) => {
        const email = seat.customer_email ?? seat.email ?? ''
        return (
          <label key={seat.id} className="choice">
            <input type="checkbox" name="seat_id" value={seat.id} />
            <span>
              {seat.member?.name ?? email}{' '}
              <span className="soft">
                {seat.member?.name && `${email} · `}
                {seat.status === 'pending' ? words.seatStatuses.invited : words.seatStatuses.active}
                {email === reader && ` · ${words.price.you}`}
              </span>
            </span>
          </label>
        )
      })}
      {seats.length > mostRemovable && (
        <p>
          <a href={team}>{words.price.removeMore(seats.length - mostRemovable)}</a>
        </p>
      )}
      <button className="danger" name="do" value="free" data-whole="">
        {words.price.removeNow}
      </button>
    </fieldset>
  )
}

interface Fact {
  readonly label: string
  readonly value: string
  /** The date that both texts contain in the place of `day`. */
  readonly at?: string
}

/** Stands for the date in a fact. */
const day = '{day}'

/**
 * Returns the facts of a price as label and value: the charge now, the next invoice, the regular price after it, and the
 * number of seats.
 */
const factsOf = (frame: Frame, price: PortalPrice, usage: readonly string[]): Fact[] => {
  const { money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const words = shared.price
  const { now, next, currency, seats } = price
  const cash = (amount: number) => money(amount, currency)
  const tax = (amount: number) => (amount > 0 ? ` (${shared.withTax(cash(amount))})` : '')
  const later = next !== null && price.applies_at >= next.at
  const regular = [
    `${cash(price.amount)} ${everyOf(frame, price)}`,
    ...(next && next.tax_amount > 0 ? [isTaxIncluded(next) ? words.taxIncluded : words.plusTax] : []),
    ...(next && next.discount_amount > 0 ? [words.beforeDiscount] : []),
  ]
  return [
    {
      label: words.now,
      value:
        now === null || (now.charge_amount === 0 && now.total_amount >= 0)
          ? words.nothingNow
          : now.total_amount < 0
            ? words.credit(cash(0 - now.total_amount))
            : `${cash(now.charge_amount)}${tax(now.tax_amount)} ${now.lines.some((line) => line.proration) ? words.restOf : ''}`.trim(),
    },
    next === null
      ? { label: words.next, value: words.noNext }
      : {
          label: words.nextOn(day),
          value: (next.lines.some((line) => line.proration) ? words.withChange : String)(`${cash(next.charge_amount)}${tax(next.tax_amount)}`),
          at: next.at,
        },
    ...(next === null ? [] : [{ label: words.regular, value: regular.join(', ') }]),
    ...(seats === null
      ? []
      : [
          later
            ? { label: words.counts, value: words.seatsLater(shared.seats(seats), day), at: price.applies_at }
            : { label: words.counts, value: words.seatsNow(shared.seats(seats)) },
        ]),
    ...usage.map((cost) => ({ label: words.usage, value: cost })),
  ]
}

/** Returns the facts as text for screen readers. Dates have the name of their zone, because the script does not change this text. */
const saidOf = (frame: Frame, price: PortalPrice, usage: readonly string[]): string => {
  const { date } = speak(frame)
  return factsOf(frame, price, usage)
    .map(({ label, value, at }) => `${label}: ${value}`.replace(day, at === undefined ? day : `${date(at)} UTC`))
    .join('. ')
}

const PriceLines = ({ frame, price, usage }: { frame: Frame; price: PortalPrice; usage: readonly string[] }) => {
  const shared = textsIn(frame, portalTexts)
  const words = shared.price
  const charge = price.now ?? price.next
  return (
    <>
      <dl className="price">
        {factsOf(frame, price, usage).map(({ label, value, at }) => (
          <div key={`${label}${value}`}>
            <dt>{at === undefined ? label : <Dated frame={frame} at={at} text={(shown) => label.replace(day, shown)} />}</dt>
            <dd>{at === undefined ? value : <Dated frame={frame} at={at} text={(shown) => value.replace(day, shown)} />}</dd>
          </div>
        ))}
      </dl>
      {charge && charge.lines.length > 0 && (
        <details>
          <summary>{words.how}</summary>
          <Sums
            frame={frame}
            rows={sumsOf(frame, { ...charge, currency: price.currency, seats: price.seats }, { label: words.due, amount: charge.charge_amount })}
            currency={price.currency}
            caption={shared.sums.items}
          />
        </details>
      )}
    </>
  )
}
