import type { Frame, PortalEntryView } from '@bursar/contract'
import { Document, Field, Form, Notice, speak } from '../kit.tsx'

type Props<K extends PortalEntryView['kind']> = { view: Extract<PortalEntryView, { kind: K }>; frame: Frame }

const Flow = ({ flow }: { flow: string | null }) => flow !== null && <input type="hidden" name="flow" value={flow} />

/** A link opens nothing by being looked at: a press does it, and where there is script, the script presses. */
export const PortalEnter = ({ view: { seller, flow, pressed }, frame }: Props<'portal-enter'>) => {
  const { t } = speak(frame)
  const title = t.portal.entry.enterTitle(seller.name)
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow script>
      <div className="card">
        <h1>{title}</h1>
        <p>{t.portal.entry.enter}</p>
        <Form frame={frame} action={`/${seller.slug}/portal/enter`}>
          <Flow flow={flow} />
          <button className="primary" data-press={pressed ? '' : undefined}>
            {t.portal.entry.enterButton}
          </button>
        </Form>
      </div>
    </Document>
  )
}

/** The way in by mail: address, code, and where one address belongs to several customers, which of them. */
export const PortalSignIn = ({ view, frame }: Props<'portal-sign-in'>) => {
  const { t } = speak(frame)
  const words = t.portal.entry
  const { seller, step, email, customers, flow, why, mishap, resent } = view
  const action = `/${seller.slug}/portal/sign-in`
  const title = { email: words.title(seller.name), code: words.codeTitle, choose: words.chooseTitle }[step]
  const error = mishap === null ? undefined : words.mishaps[mishap]
  return (
    <Document frame={frame} title={title} seller={seller.name} narrow>
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

/** The link that confirms a new address: one press, and it is changed. */
export const PortalEmail = ({ view: { seller, state }, frame }: Props<'portal-email'>) => {
  const { t } = speak(frame)
  const words = t.portal.entry
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
