import type { CheckoutView, Frame } from '@bursar/views'
import { Document, Form, LeadingOn, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { readonly view: Extract<CheckoutView, { kind: 'checkout-closed' }>; readonly frame: Frame }

/** The page of a checkout or link that no longer works. It names the seller and leads back to it. */
export const CheckoutClosed = ({ view: { reason, seller, return_url, renew = null }, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { title, text } = words[reason]
  return (
    <Document frame={frame} title={title} narrow {...(seller === null ? {} : { seller: seller.name })}>
      <div className="card">
        <h1>{title}</h1>
        <p>{renew === null ? text : words.renewable}</p>
        {renew !== null && (
          <Form frame={frame} action={renew}>
            <button className="primary">{words.renew}</button>
          </Form>
        )}
        <LeadingOn frame={frame} seller={seller && { ...seller, website: return_url ?? seller.website ?? null }} primary={renew === null} />
      </div>
    </Document>
  )
}
