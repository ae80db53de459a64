import type { Frame, FrameView } from '@bursar/views'
import { Countdown, Document, Form, LeadingOn, textsIn } from '../index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<FrameView, { kind: 'problem' }>; frame: Frame }

/** The page about an error. It says what happened, names the seller, and leads on. */
export const Problem = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const { error, status, description, request_id, seller, form } = view
  const wait = view.retry_after ?? null
  const title = words.titles[error] ?? words.title
  // A person reads the sentences. The details help a developer or the support of the seller, and are open if the sentences refer to them.
  const isBroken = error !== 'ServiceUnavailable' && (status >= 500 || words.known[error] === undefined)
  return (
    <Document frame={frame} title={title} narrow script={wait !== null} refresh={form ? null : wait} {...(seller ? { seller: seller.name } : {})}>
      <div className="card">
        <h1>{title}</h1>
        <p>
          {words.known[error] ?? words.other}
          {form && wait !== null && ` ${words.keptEntries}`}
        </p>
        {form ? (
          <Form frame={frame} action={form.action}>
            {form.fields.map(([name, value], at) => (
              <input key={`${at} ${name}`} type="hidden" name={name} value={value} />
            ))}
            {wait === null ? <p>{words.kept}</p> : <Countdown frame={frame} seconds={wait} text={words.sending} then="again" />}
            <button id="again" className={wait === null ? 'primary' : undefined}>
              {words.send}
            </button>
          </Form>
        ) : (
          <>
            {wait !== null && <Countdown frame={frame} seconds={wait} text={words.retrying} />}
            {(view.again || wait !== null) && (
              <p>
                <a className={wait === null ? 'button primary' : undefined} href="">
                  {words.again}
                </a>
              </p>
            )}
            {status < 500 && status !== 404 && wait === null && <p className="soft">{words.unchanged}</p>}
          </>
        )}
        <LeadingOn frame={frame} seller={seller ?? null} account={!view.visitor} primary={!form && wait === null && !view.again} />
        {(description !== '' || request_id) && (
          <details open={isBroken && description !== ''}>
            <summary>{words.developers}</summary>
            <p>
              <code>{error}</code>
              {description !== '' && `: ${description}`}
            </p>
            {request_id && (
              <p>
                {words.requestId} <code>{request_id}</code>
              </p>
            )}
          </details>
        )}
      </div>
    </Document>
  )
}
