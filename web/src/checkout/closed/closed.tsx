import type { CheckoutView, Frame } from '@bursar/views'
import { Document, textsIn } from '../../kit/index.ts'
import { Back } from '../back.tsx'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { readonly view: Extract<CheckoutView, { kind: 'checkout-closed' }>; readonly frame: Frame }

export const CheckoutClosed = ({ view, frame }: Props) => {
  const { title, text } = textsIn(frame, texts)[view.reason]
  return (
    <Document frame={frame} title={title} narrow {...(view.seller === null ? {} : { seller: view.seller })}>
      <div className="card">
        <h1>{title}</h1>
        <p>{text}</p>
        <Back to={view.return_url} frame={frame} />
      </div>
    </Document>
  )
}
