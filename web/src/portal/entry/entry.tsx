import type { Frame, PortalEntryView } from '@bursar/views'
import { Document, Field, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props<K extends PortalEntryView['kind']> = { view: Extract<PortalEntryView, { kind: K }>; frame: Frame }

const Flow = ({ flow }: { flow: string | null }) => flow !== null && <input type="hidden" name="flow" value={flow} />

/**
 * The page of a portal link. Loading the page has no effect, so that link scanners do not use up the link. A button
 * opens the portal. The script presses the button, unless the reader already has a session.
 */
export const PortalEnter = ({ view: { seller, flow, pressed }, frame }: Props<'portal-enter'>) => {
  const words = textsIn(frame, texts)
  const title = words.enterTitle(seller.name)
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow script>
      <div className="card">
        <h1>{title}</h1>
        <p>{words.enter}</p>
        <Form frame={frame} action={`/${seller.slug}/portal/enter`}>
          <Flow flow={flow} />
          <button className="primary" data-press={pressed ? '' : undefined}>
            {words.enterButton}
          </button>
        </Form>
      </div>
    </Document>
  )
}

/** Sign-in by e-mail: address, code, and the choice of customer if the address belongs to several. */
export const PortalSignIn = ({ view, frame }: Props<'portal-sign-in'>) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const { seller, step, email, customers, flow, why, mishap, resent } = view
  const action = `/${seller.slug}/portal/sign-in`
  const title = { email: words.title(seller.name), code: words.codeTitle, choose: words.chooseTitle }[step]
  const error = mishap === null ? undefined : words.mishaps[mishap]
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow preview={{ description: words.intro }}>
      <div className="card">
        <h1>{title}</h1>
        {why !== null && <Notice kind={why === 'link' ? 'warn' : 'good'}>{words[why]}</Notice>}
        {resent && <Notice>{words.codeResent}</Notice>}
        {step === 'email' && (
          <Form frame={frame} action={action}>
            <input type="hidden" name="step" value="email" />
            <Flow flow={flow} />
            <Field
              name="email"
              label={words.email}
              hint={words.intro}
              type="email"
              value={email}
              autoComplete="username"
              inputMode="email"
              autoFocus
              error={error}
            />
            <button className="primary">{words.sendCode}</button>
          </Form>
        )}
        {step === 'code' && (
          <>
            {!resent && <p>{words.codeSent(email)}</p>}
            <Form frame={frame} action={action}>
              <input type="hidden" name="step" value="code" />
              <input type="hidden" name="email" value={email} />
              <Flow flow={flow} />
              <Field name="code" label={words.code} autoComplete="one-time-code" autoFocus error={error} />
              <button className="primary">{words.submit}</button>
            </Form>
            <div className="row">
              <Form frame={frame} action={action}>
                <input type="hidden" name="step" value="email" />
                <input type="hidden" name="resend" value="1" />
                <input type="hidden" name="email" value={email} />
                <Flow flow={flow} />
                <button className="quiet">{words.again}</button>
              </Form>
              <a href={flow === null ? action : `${action}?flow=${flow}`}>{words.otherAddress}</a>
            </div>
          </>
        )}
        {step === 'choose' && (
          <>
            <p>{words.choose(email)}</p>
            <Form frame={frame} action={action} className="chooser">
              <input type="hidden" name="step" value="code" />
              <input type="hidden" name="email" value={email} />
              <Flow flow={flow} />
              {customers.map(({ id, name }) => (
                <button key={id} name="customer_id" value={id}>
                  {name ?? words.nameless}
                </button>
              ))}
            </Form>
          </>
        )}
        {frame.development && (
          <p className="soft">
            <a href="/mailbox">{t.nav.mailbox}</a>
          </p>
        )}
      </div>
    </Document>
  )
}

/** The page of a link that confirms a new e-mail address. A button changes the address. */
export const PortalEmail = ({ view: { seller, state }, frame }: Props<'portal-email'>) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.emailTitle} seller={seller.name} narrow>
      <div className="card">
        <h1>{words.emailTitle}</h1>
        <p>{{ open: words.emailOpen(seller.name), over: words.emailOver, taken: words.emailTaken, done: words.emailDone }[state]}</p>
        {state === 'open' ? (
          <Form frame={frame} action={`/${seller.slug}/portal/email`}>
            <button className="primary">{words.emailConfirm}</button>
          </Form>
        ) : (
          <a href={`/${seller.slug}/portal`}>{words.toPortal}</a>
        )}
      </div>
    </Document>
  )
}
