import type { ClaimView, Frame } from '@bursar/views'
import { Cover, Document, Form, Notice, Progress, Status, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props<K extends ClaimView['kind']> = { view: Extract<ClaimView, { kind: K }>; frame: Frame }

/** An invitation to a seat: the offer with one button, or the reason why it cannot be accepted, each with a next step. */
export const Claim = ({ view, frame }: Props<'claim'>) => {
  const words = textsIn(frame, texts)
  const { seller, state, product_name, email, invited_by, benefits, other } = view
  const portal = `/${seller.slug}/portal`
  const sentences = {
    open: [words.title(product_name), ''],
    closed: [words.closedTitle, words.closed],
    mine: [words.mineTitle, words.mine(product_name)],
    used: [words.usedTitle, words.used(email)],
    expired: [words.expiredTitle, words.expired],
    asked: [words.askedTitle, words.asked],
    revoked: [words.revokedTitle, words.revoked],
  } as const
  const [title, sentence] = sentences[state]
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow>
      <div className="card">
        <Cover src={state === 'open' ? view.cover : null} />
        <h1>{title}</h1>
        {state === 'open' ? (
          <>
            <p>{invited_by === null ? words.given(product_name, seller.name) : words.invited(invited_by, product_name, seller.name)}</p>
            {benefits.length > 0 && (
              <>
                <h2 id="gives">{words.gives}</h2>
                <ul className="gives" aria-labelledby="gives">
                  {benefits.map(({ id, description }) => (
                    <li key={id}>{description}</li>
                  ))}
                </ul>
              </>
            )}
            {other === null ? (
              <p className="you">
                <span>
                  <span className="soft">{words.for}</span> <strong>{email}</strong>
                </span>
              </p>
            ) : (
              <Notice kind="warn">{words.other(email, other)}</Notice>
            )}
            <Form frame={frame} action={`${portal}/claim`}>
              <button className="primary">{other === null ? words.accept : words.continueAs(email)}</button>
            </Form>
            <p className="soft after">{words.free}</p>
          </>
        ) : (
          <>
            <p>{sentence}</p>
            {state === 'mine' && (
              <a className="button primary" href={`${portal}/access`}>
                {words.openPortal}
              </a>
            )}
            {state === 'used' && (
              <Form frame={frame} action={`${portal}/sign-in`}>
                <input type="hidden" name="step" value="email" />
                <input type="hidden" name="email" value={email} />
                <button className="primary">{words.sendCode(email)}</button>
              </Form>
            )}
            {state === 'expired' && (
              <Form frame={frame} action={`${portal}/claim/ask`}>
                <button className="primary">{words.ask}</button>
              </Form>
            )}
            {(state === 'revoked' || state === 'closed') && <a href={`${portal}/sign-in`}>{words.toSignIn}</a>}
          </>
        )}
      </div>
    </Document>
  )
}

export const ClaimUnknown = ({ view: { seller }, frame }: Props<'claim-unknown'>) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.unknownTitle} seller={seller.name} narrow>
      <div className="card">
        <h1>{words.unknownTitle}</h1>
        <p>{words.unknown}</p>
        <a href={`/${seller.slug}/portal/sign-in`}>{words.toSignIn}</a>
      </div>
    </Document>
  )
}

const kinds = { ready: 'good', waits: 'wait', stuck: 'bad' } as const

/** The progress of the seat's benefits, as the server reports it. The page reloads by itself. */
export const ClaimReady = ({ view: { seller, product_name, benefits }, frame }: Props<'claim-ready'>) => {
  const words = textsIn(frame, texts)
  const done = benefits.filter(({ state }) => state === 'ready').length
  return (
    <Document frame={frame} title={words.readyTitle} seller={seller.name} narrow refresh={3}>
      <div className="card">
        <h1>{words.readyTitle}</h1>
        <p>
          {product_name}. {words.waiting}
        </p>
        <Progress label={words.ready(done, benefits.length)} done={done} of={benefits.length} />
        <ul className="gives states">
          {benefits.map(({ id, description, state }) => (
            <li key={id}>
              <span>{description}</span>
              <Status kind={kinds[state]}>{words.states[state]}</Status>
            </li>
          ))}
        </ul>
        <a href={`/${seller.slug}/portal/access`}>{words.skipWaiting}</a>
      </div>
    </Document>
  )
}
