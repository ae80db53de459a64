import type { Frame, PortalPrice, PortalProduct, PortalSeat, PortalWish } from '@bursar/views'
import { Form, said, speak, textsIn } from '../kit/index.ts'
import { everyOf, priceIn } from './plan.tsx'
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
  /** The seats of the purchase. If their number is reduced, the form suggests which ones to revoke first. */
  readonly people?: readonly PortalSeat[]
  /** The number of claimed and invited seats. */
  readonly taken?: number
}

/** The form for a subscription change. The button that makes the change is shown only together with its exact price. */
export const PriceForm = ({ frame, action, billing, flow, subscription_id, currency = '', wish, products, seats, people = [], taken = 0 }: PriceFormProps) => {
  const { price: words, addMethod } = textsIn(frame, portalTexts)
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
            {wrong} {complaint.type === 'PaymentMethodRequired' && <a href={billing}>{addMethod}</a>}
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

/** Suggests the seats to revoke first: pending invitations, then the latest ones. */
const Removable = ({ frame, people, count }: { frame: Frame; people: readonly PortalSeat[]; count: number }) => {
  const words = textsIn(frame, portalTexts)
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
            {seat.status === 'pending' && ` (${words.seatStatuses.invited})`}
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

/** Returns the three lines of a price: the charge now, the later price, and the number of seats. */
const linesOf = (frame: Frame, price: PortalPrice): Said => {
  const { date, money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const words = shared.price
  const { now, next, currency, seats } = price
  const cash = (amount: number) => money(amount, currency)
  const tax = (amount: number) => (amount > 0 ? ` (${shared.withTax(cash(amount))})` : '')
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
    counts: seats === null ? null : later ? words.seatsLater(shared.seats(seats), date(price.applies_at)) : words.seatsNow(shared.seats(seats)),
  }
}

const saidOf = (frame: Frame, price: PortalPrice): string => {
  const { price: words } = textsIn(frame, portalTexts)
  const { now, from, next, counts } = linesOf(frame, price)
  return [`${words.now}: ${now}`, `${from}: ${next}`, counts && `${words.counts}: ${counts}`].filter(Boolean).join('. ')
}

const PriceLines = ({ frame, price }: { frame: Frame; price: PortalPrice }) => {
  const { money } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const words = shared.price
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
