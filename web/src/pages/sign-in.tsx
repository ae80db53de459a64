import type { Frame, View } from '@bursar/contract'
import { Document, Field, Form, Notice, speak, Summary } from '../kit.tsx'

type Props = Extract<View, { kind: 'sign-in' }>

export const SignIn = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { t } = speak(frame)
  const { step, email, return_to, client_name, mishap, resent, tries_left } = view
  const title = step === 'email' ? t.signIn.title : step === 'code' ? t.signIn.codeTitle : t.signIn.factorTitle
  const error = mishap ? t.mishaps[mishap] : undefined
  return (
    <Document frame={frame} title={title} narrow>
      <div className="card">
        <h1>{title}</h1>
        {client_name && <p className="soft">{t.signIn.continueTo(client_name)}</p>}
        <Summary frame={frame} mishap={mishap} more={tries_left !== null && tries_left > 0 ? t.triesLeft(tries_left) : null} />
        {resent && <Notice>{t.signIn.codeResent}</Notice>}
        <Form frame={frame} action="/login">
          <input type="hidden" name="step" value={step} />
          <input type="hidden" name="return_to" value={return_to} />
          {step === 'email' ? (
            <Field name="email" label={t.signIn.email} type="email" value={email} autoComplete="username" inputMode="email" autoFocus error={error} />
          ) : (
            <>
              <input type="hidden" name="email" value={email} />
              {step === 'code' && !resent && <p>{t.signIn.codeSent(email)}</p>}
              <Field
                name="code"
                label={step === 'code' ? t.signIn.code : t.signIn.factor}
                {...(step === 'factor' ? { hint: t.signIn.factorHint } : {})}
                autoComplete="one-time-code"
                autoFocus
                error={error}
              />
            </>
          )}
          <button className="primary">{step === 'email' ? t.signIn.sendCode : t.signIn.submit}</button>
        </Form>
        {step === 'factor' && <a href={`/login?again=1&return_to=${encodeURIComponent(return_to)}`}>{t.signIn.beginAgain}</a>}
        {step === 'code' && (
          <div className="row">
            <Form frame={frame} action="/login">
              <input type="hidden" name="step" value="email" />
              <input type="hidden" name="resend" value="1" />
              <input type="hidden" name="return_to" value={return_to} />
              <input type="hidden" name="email" value={email} />
              <button className="quiet">{t.signIn.again}</button>
            </Form>
            <a href={`/login?again=1&return_to=${encodeURIComponent(return_to)}`}>{t.signIn.otherAddress}</a>
          </div>
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
