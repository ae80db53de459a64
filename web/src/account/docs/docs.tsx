import type { AccountView, Frame } from '@bursar/views'
import { Document, speak, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = Extract<AccountView, { kind: 'docs' }>

/** The page for developers: the OpenAPI document, authentication and the OAuth endpoints. */
export const Docs = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.title} narrow>
      <div className="card">
        <h1>{words.title}</h1>
        <h2>{words.api}</h2>
        <p>{words.apiText}</p>
        <p>
          <a href={view.openapi}>{words.openapi}</a>
        </p>
        <h2>{words.tokens}</h2>
        <p>
          {words.tokensText} <a href="/settings/tokens">{t.nav.tokens}</a>
        </p>
        <h2>{words.oauth}</h2>
        <p>
          {words.oauthText} <code>{view.issuer}</code>
        </p>
        <dl>
          {view.endpoints.map(({ name, url }) => (
            <div key={name}>
              <dt>{words.endpoints[name]}</dt>
              <dd>
                <code>{url}</code>
              </dd>
            </div>
          ))}
        </dl>
      </div>
    </Document>
  )
}
