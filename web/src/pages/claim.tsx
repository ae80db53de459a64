import type { ClaimView, Frame } from '@bursar/contract'
import { Document, Form, Notice, Progress, speak, Status } from '../kit.tsx'

type Props<K extends ClaimView['kind']> = { view: Extract<ClaimView, { kind: K }>; frame: Frame }

/** An invitation to a seat: the offer with its one button, or the end that it met, each with its own way on. */
export const Claim = ({ view, frame }: Props<'claim'>) => {
  const { t } = speak(frame)
  const { seller, state, product_name, email, invited_by, benefits, other } = view
  const portal = `/${seller.slug}/portal`
  const words = {
    open: [t.claim.title(product_name), ''],
    closed: [t.claim.closedTitle, t.claim.closed],
    mine: [t.claim.mineTitle, t.claim.mine(product_name)],
    used: [t.claim.usedTitle, t.claim.used(email)],
    expired: [t.claim.expiredTitle, t.claim.expired],
    asked: [t.claim.askedTitle, t.claim.asked],
    revoked: [t.claim.revokedTitle, t.claim.revoked],
  } as const
  const [title, sentence] = words[state]
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow>
      <div className="card">
        <h1>{title}</h1>
        {state === 'open' ? (
          <>
            <p>{invited_by === null ? t.claim.given(product_name, seller.name) : t.claim.invited(invited_by, product_name, seller.name)}</p>
            {benefits.length > 0 && (
              <>
                <h2 id="gives">{t.claim.gives}</h2>
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
                  <span className="soft">{t.claim.for}</span> <strong>{email}</strong>
                </span>
              </p>
            ) : (
              <Notice kind="warn">{t.claim.other(email, other)}</Notice>
            )}
            <Form frame={frame} action={`${portal}/claim`}>
              <button className="primary">{other === null ? t.claim.accept : t.claim.continueAs(email)}</button>
            </Form>
            <p className="soft after">{t.claim.free}</p>
          </>
        ) : (
          <>
            <p>{sentence}</p>
            {state === 'mine' && (
              <a className="button primary" href={`${portal}/access`}>
                {t.claim.openPortal}
              </a>
            )}
            {state === 'used' && (
              <Form frame={frame} action={`${portal}/sign-in`}>
                <input type="hidden" name="step" value="email" />
                <input type="hidden" name="email" value={email} />
                <button className="primary">{t.claim.sendCode(email)}</button>
              </Form>
            )}
            {state === 'expired' && (
              <Form frame={frame} action={`${portal}/claim/ask`}>
                <button className="primary">{t.claim.ask}</button>
              </Form>
            )}
            {(state === 'revoked' || state === 'closed') && <a href={`${portal}/sign-in`}>{t.claim.toSignIn}</a>}
          </>
        )}
      </div>
    </Document>
  )
}

export const ClaimUnknown = ({ view: { seller }, frame }: Props<'claim-unknown'>) => {
  const { t } = speak(frame)
  return (
    <Document frame={frame} title={t.claim.unknownTitle} seller={seller.name} narrow>
      <div className="card">
        <h1>{t.claim.unknownTitle}</h1>
        <p>{t.claim.unknown}</p>
        <a href={`/${seller.slug}/portal/sign-in`}>{t.claim.toSignIn}</a>
      </div>
    </Document>
  )
}

const kinds = { ready: 'good', waits: 'wait', stuck: 'bad' } as const

/** What the seat gives, as far as it is there: the server counts, the page looks again by itself. */
export const ClaimReady = ({ view: { seller, product_name, benefits }, frame }: Props<'claim-ready'>) => {
  const { t } = speak(frame)
  const done = benefits.filter(({ state }) => state === 'ready').length
  return (
    <Document frame={frame} title={t.claim.readyTitle} seller={seller.name} narrow refresh={3}>
      <div className="card">
        <h1>{t.claim.readyTitle}</h1>
        <p>
          {product_name}. {t.claim.waiting}
        </p>
        <Progress label={t.claim.ready(done, benefits.length)} done={done} of={benefits.length} />
        <ul className="gives states">
          {benefits.map(({ id, description, state }) => (
            <li key={id}>
              <span>{description}</span>
              <Status kind={kinds[state]}>{t.claim.states[state]}</Status>
            </li>
          ))}
        </ul>
        <a href={`/${seller.slug}/portal/access`}>{t.claim.skipWaiting}</a>
      </div>
    </Document>
  )
}
