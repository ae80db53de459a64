import { gunzipSync, gzipSync } from 'node:zlib'
import { renderToStaticMarkup } from 'react-dom/server'
import type { AccountView, Frame, ReferenceField, ReferenceOperation } from '@bursar/views'
import { Document, textsIn } from '../../kit/index.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }
type Words = typeof en
type Props = Extract<AccountView, { kind: 'reference' }>

/** A sentence in which names stand between backticks. */
const Sentence = ({ text }: { text: string }) => <>{text.split('`').map((part, at) => (at % 2 === 0 ? part : <code key={at}>{part}</code>))}</>

const Fields = ({ fields, words }: { fields: readonly ReferenceField[]; words: Words }) => (
  <dl className="fields">
    {fields.map((field, at) => (
      <div key={at}>
        <dt>
          <code>{field.name}</code> <span className="soft">{field.type === 'variant' ? words.variant : field.type}</span>{' '}
          {field.required && <span className="mark">{words.required}</span>}
        </dt>
        <dd>
          {field.description !== '' && <Sentence text={field.description} />}
          {field.fields.length > 0 && (
            <details>
              <summary>{words.fieldsOf(field.name)}</summary>
              <Fields fields={field.fields} words={words} />
            </details>
          )}
        </dd>
      </div>
    ))}
  </dl>
)

const Operation = ({ operation, words }: { operation: ReferenceOperation; words: Words }) => {
  const { anchor, id, method, path, summary, description, callers, scopes, parameters, body, answer, errors, curl, typescript } = operation
  return (
    <section className="card operation" id={anchor} aria-labelledby={`${anchor}-title`}>
      <h2 id={`${anchor}-title`} lang="en">
        <a href={`#${anchor}`}>{summary}</a>
      </h2>
      <p>
        <span className="mark">{method}</span> <code>{path}</code>
      </p>
      {description !== null && (
        <p lang="en">
          <Sentence text={description} />
        </p>
      )}
      <p>
        {words.whoMayCall} {callers.map((caller) => words.callers[caller]).join(', ')}.{' '}
        {scopes.length > 0 && (
          <>
            {words.scopes} {scopes.flatMap((scope, at) => [at === 0 ? '' : ', ', <code key={scope}>{scope}</code>])}
          </>
        )}
      </p>
      <p className="soft">
        {words.operation} <code>{id}</code>
      </p>
      {parameters.length > 0 && (
        <>
          <h3>{words.parameters}</h3>
          <div lang="en">
            <Fields fields={parameters.map((one) => ({ ...one, type: `${one.where}, ${one.type}` }))} words={words} />
          </div>
        </>
      )}
      {body.length > 0 && (
        <>
          <h3>{words.body}</h3>
          <div lang="en">
            <Fields fields={body} words={words} />
          </div>
        </>
      )}
      <h3>{words.example}</h3>
      <h4>curl</h4>
      <pre lang="en">{curl}</pre>
      {typescript !== null && (
        <>
          <h4>TypeScript</h4>
          <pre lang="en">{typescript}</pre>
        </>
      )}
      <h3>
        {words.answer} {answer.status}
      </h3>
      <p lang="en">{answer.description}</p>
      {answer.example !== null && <pre lang="en">{answer.example}</pre>}
      {answer.fields.length > 0 && (
        <details>
          <summary>{words.answerFields}</summary>
          <div lang="en">
            <Fields fields={answer.fields} words={words} />
          </div>
        </details>
      )}
      <details>
        <summary>{words.errors}</summary>
        <dl className="fields" lang="en">
          {errors.map(({ status, names, description: text }) => (
            <div key={status}>
              <dt>
                {status} {names.flatMap((name, at) => [at === 0 ? '' : ', ', <code key={name}>{name}</code>])}
              </dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  )
}

const Area = ({ view, words }: { view: Props; words: Words }) => (
  <>
    <p>
      <a href="/docs">{words.allAreas}</a>
    </p>
    <h1 lang="en">{view.area}</h1>
    <nav aria-label={words.inThisArea}>
      <ul lang="en">
        {view.operations.map(({ anchor, method, summary }) => (
          <li key={anchor}>
            <a href={`#${anchor}`}>
              <span className="soft">{method}</span> {summary}
            </a>
          </li>
        ))}
      </ul>
    </nav>
    {view.operations.map((operation) => (
      <Operation key={operation.id} operation={operation} words={words} />
    ))}
  </>
)

/** Areas that are kept, in all languages. There are fewer, unless a process has several origins. */
const mostKept = 300
const kept = new Map<string, Buffer>()

/**
 * Renders an area once in each language, and keeps it compressed. A large area takes a quarter of a second, and strangers may open it. A
 * language of the tests is not kept.
 */
const htmlOf = (view: Props, frame: Frame, words: Words): string => {
  const key = `${frame.origin} ${frame.locale} ${view.area}`
  const known = frame.translate ? undefined : kept.get(key)
  if (known) return gunzipSync(known).toString()
  const html = renderToStaticMarkup(<Area view={view} words={words} />)
  if (frame.translate) return html
  if (kept.size >= mostKept) kept.clear()
  kept.set(key, gzipSync(html))
  return html
}

/** The reference of the operations of one area. */
export const Reference = ({ view, frame }: { view: Props; frame: Frame }) => {
  const words = textsIn(frame, texts)
  return (
    <Document frame={frame} title={`${view.area} – ${words.title}`}>
      <div className="reference" dangerouslySetInnerHTML={{ __html: htmlOf(view, frame, words) }} />
    </Document>
  )
}
