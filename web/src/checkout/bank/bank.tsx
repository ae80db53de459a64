import type { CheckoutView, Frame } from '@bursar/views'
import { Document, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { processorTexts } from '../../kit/processor/texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { readonly view: Extract<CheckoutView, { kind: 'bank' }>; readonly frame: Frame }

/** The bank's challenge: simulated for a test card, or through the processor's script. */
export const Bank = ({ view, frame }: Props) => {
  const { money } = speak(frame)
  const shared = textsIn(frame, processorTexts)
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.title} seller={view.seller} narrow scripts={view.processor ? ['/assets/stripe.js'] : []}>
      <div className="card">
        <h1>{words.title}</h1>
        <p className="price">{view.amount > 0 ? words.text(money(view.amount, view.currency), view.seller) : words.setup(view.seller)}</p>
        {view.processor && (
          <>
            <Form frame={frame} action={view.action} className="hidden">
              <button
                id="processor-action"
                data-key={view.processor.key}
                data-intent={view.processor.intent_client_secret}
                data-failed={shared.notLoaded}
                tabIndex={-1}
              >
                {words.confirm}
              </button>
            </Form>
            <p id="processor-error" className="error" role="alert" />
            <noscript>
              <p className="notice warn">{shared.needsScript}</p>
            </noscript>
          </>
        )}
        {!view.processor && (
          <Form frame={frame} action={view.action}>
            <div className="buttons">
              <button name="answer" value="refuse">
                {words.refuse}
              </button>
              <button name="answer" value="confirm" className="primary">
                {words.confirm}
              </button>
            </div>
          </Form>
        )}
        {!view.processor && (
          <Notice kind="warn">
            <p>{words.sandbox}</p>
          </Notice>
        )}
      </div>
    </Document>
  )
}
