import type { AccountView, Frame } from '@bursar/views'
import { Document, speak, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = Extract<AccountView, { kind: 'docs' }>

/** The page for developers: all operations with a filter, the OpenAPI document, authentication and the OAuth endpoints. */
export const Docs = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { t } = speak(frame)
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={words.title}>
      <div className="reference">
        <h1>{words.title}</h1>
        <h2>{words.api}</h2>
        <p>{words.apiText}</p>
        <p>
          <a href={view.openapi}>{words.openapi}</a>
        </p>
        <form className="filter" method="get" action="/docs" role="search">
          <label htmlFor="q">{words.filter}</label>
          <input id="q" name="q" type="search" defaultValue={view.filter} maxLength={100} />
          <button>{words.show}</button>
        </form>
        <p className="soft">
          {words.shown(
            view.areas.reduce((sum, { operations }) => sum + operations.length, 0),
            view.total,
          )}
        </p>
        {view.areas.map((area) => (
          <section key={area.slug} className="card" aria-labelledby={`area-${area.slug}`} lang="en">
            <h2 id={`area-${area.slug}`}>
              <a href={`/docs/${area.slug}`}>{area.name}</a>
            </h2>
            <ul>
              {area.operations.map(({ anchor, method, path, summary }) => (
                <li key={anchor}>
                  <a href={`/docs/${area.slug}#${anchor}`}>{summary}</a>{' '}
                  <span className="soft">
                    {method} <code>{path}</code>
                  </span>
                </li>
              ))}
            </ul>
          </section>
        ))}
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
