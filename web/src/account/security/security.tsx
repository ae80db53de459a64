import type { AccountView, Frame } from '@bursar/views'
import { Copy, Document, Field, Form, Notice, textsIn } from '../../kit/index.ts'
import { Code } from '../code.tsx'
import { Summary } from '../summary.tsx'
import { accountTexts } from '../texts.ts'
import { QrCode } from './qr.tsx'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'security' }>; frame: Frame }

export const Security = ({ view, frame }: Props) => {
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, accountTexts)
  const { state, setup, recovery_codes, mishap } = view
  const error = mishap ? shared.mishaps[mishap] : undefined
  return (
    <Document frame={frame} title={words.title} script={recovery_codes !== null}>
      <h1>{words.title}</h1>
      <p className="soft">{words.intro}</p>
      {view.required && state !== 'on' && <Notice kind="warn">{words.required}</Notice>}
      <Summary frame={frame} mishap={mishap} />
      {recovery_codes && (
        <section className="card made" aria-labelledby="codes">
          <h2 id="codes">{words.codesTitle}</h2>
          <p>{words.codes}</p>
          <pre id="recovery-codes" tabIndex={0} aria-labelledby="codes">
            {recovery_codes.join('\n')}
          </pre>
          <Copy frame={frame} of="recovery-codes" what={words.codesTitle} />
        </section>
      )}
      <section className="card">
        {state === 'on' && (
          <>
            <p>
              <strong>{words.on}</strong> {words.left(view.recovery_left)}
            </p>
            <Form frame={frame} action="/settings/security">
              <Field name="code" label={shared.factor} hint={words.endHint} autoComplete="one-time-code" error={error} />
              <button className="danger" name="action" value="end">
                {words.end}
              </button>
            </Form>
          </>
        )}
        {state === 'off' && (
          <>
            <p>{words.off}</p>
            <Form frame={frame} action="/settings/security">
              <button className="primary" name="action" value="begin">
                {words.begin}
              </button>
            </Form>
          </>
        )}
        {setup && (
          <>
            <h2>{words.setup}</h2>
            <p>{words.scan}</p>
            <QrCode text={setup.uri} label={words.qr} />
            <Code label={words.secret} text={(setup.secret.match(/.{1,4}/g) ?? []).join(' ')} />
            <p>
              <a href={setup.uri}>{words.link}</a>
            </p>
            <Form frame={frame} action="/settings/security">
              <Field name="code" label={words.code} hint={words.confirmHint} autoComplete="one-time-code" inputMode="numeric" error={error} />
              <button className="primary" name="action" value="confirm">
                {words.confirm}
              </button>
            </Form>
          </>
        )}
      </section>
      <section className="card" aria-labelledby="sessions">
        <h2 id="sessions">{words.sessionsTitle}</h2>
        <p>{words.sessions(view.sessions)}</p>
        <Form frame={frame} action="/settings/security">
          <p className="soft">{words.everywhereHint}</p>
          <button className="danger" name="action" value="sign-out-everywhere">
            {words.everywhere}
          </button>
        </Form>
      </section>
    </Document>
  )
}
