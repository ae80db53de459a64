import type { AccountView, Frame } from '@bursar/views'
import { Document, Field, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { Summary } from '../summary.tsx'
import { accountTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = Extract<AccountView, { kind: 'sign-in' }>

export const SignIn = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, accountTexts)
  const { step, email, return_to, client_name, mishap, resent, tries_left } = view
  const title = step === 'email' ? shared.signIn : step === 'code' ? words.codeTitle : words.factorTitle
  const error = mishap ? shared.mishaps[mishap] : undefined
  return (
    <Document frame={frame} title={title} narrow>
      <div className="card">
        <h1>{title}</h1>
        {client_name && <p className="soft">{words.continueTo(client_name)}</p>}
        <Summary frame={frame} mishap={mishap} more={tries_left !== null && tries_left > 0 ? words.triesLeft(tries_left) : null} />
        {resent && <Notice>{words.codeResent}</Notice>}
        <Form frame={frame} action="/login">
          <input type="hidden" name="step" value={step} />
          <input type="hidden" name="return_to" value={return_to} />
          {step === 'email' ? (
            <Field name="email" label={words.email} type="email" value={email} autoComplete="username" inputMode="email" autoFocus error={error} />
          ) : (
            <>
              <input type="hidden" name="email" value={email} />
              {step === 'code' && !resent && <p>{words.codeSent(email)}</p>}
              <Field
                name="code"
                label={step === 'code' ? words.code : shared.factor}
                {...(step === 'factor' ? { hint: words.factorHint } : {})}
                autoComplete="one-time-code"
                autoFocus
                error={error}
              />
            </>
          )}
          <button className="primary">{step === 'email' ? words.sendCode : words.submit}</button>
        </Form>
        {step === 'factor' && <a href={`/login?again=1&return_to=${encodeURIComponent(return_to)}`}>{words.beginAgain}</a>}
        {step === 'code' && (
          <div className="row">
            <Form frame={frame} action="/login">
              <input type="hidden" name="step" value="email" />
              <input type="hidden" name="resend" value="1" />
              <input type="hidden" name="return_to" value={return_to} />
              <input type="hidden" name="email" value={email} />
              <button className="quiet">{words.again}</button>
            </Form>
            <a href={`/login?again=1&return_to=${encodeURIComponent(return_to)}`}>{words.otherAddress}</a>
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
