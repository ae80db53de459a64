import type { CheckoutView, Frame } from '@bursar/views'
import { Document, speak, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

/** The brand names of the payment methods that leave the page. */
const names: Readonly<Record<string, string>> = { ideal: 'iDEAL', bancontact: 'Bancontact', p24: 'Przelewy24', paypal: 'PayPal' }

type Props = { readonly view: Extract<CheckoutView, { kind: 'away' }>; readonly frame: Frame }

/** A payment that waits for the buyer at another site. The page shows the result as soon as there is one. */
export const Away = ({ view, frame }: Props) => {
  const { money } = speak(frame)
  const words = textsIn(frame, texts)
  const method = names[view.method] ?? view.method
  return (
    <Document frame={frame} title={words.title} seller={view.seller} narrow script refresh={view.refresh}>
      <div className="card">
        <h1>{words.title}</h1>
        <p>{view.amount > 0 ? words.text(method, money(view.amount, view.currency), view.seller) : words.setup(method, view.seller)}</p>
        <p>
          <a className="button" href={view.to} rel="noreferrer">
            {words.go(method)}
          </a>
        </p>
        <p>{words.confirmed}</p>
        <p className="soft">{words.nothing}</p>
      </div>
    </Document>
  )
}
