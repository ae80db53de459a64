import type { AccountView, Frame } from '@bursar/views'
import { Confirm, Document, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { ScopeLine } from '../scope-line.tsx'
import { accountTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'apps' }>; frame: Frame }

export const Apps = ({ view, frame }: Props) => {
  const { date } = speak(frame)
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, accountTexts)
  return (
    <Document frame={frame} title={words.title}>
      <h1>{words.title}</h1>
      <p className="soft">{words.intro}</p>
      {view.withdrawn !== null && <Notice>{words.removed(view.withdrawn)}</Notice>}
      {view.apps.length === 0 && <p className="empty">{words.empty}</p>}
      <ul className="cards">
        {view.apps.map((app) => (
          <li key={app.client_id} className="card">
            <h2>
              {app.name} <span className="tag">{app.verified ? shared.verified : shared.unverified}</span>
            </h2>
            <p className="soft">
              {words.since(date(app.created_at))}, {words.last(date(app.last_authorized_at))}
            </p>
            <p>
              {words.where}{' '}
              {app.organizations === null
                ? words.everywhere
                : app.organizations.length === 0
                  ? words.nowhere
                  : new Intl.ListFormat(frame.locale).format(app.organizations)}
            </p>
            <details>
              <summary>
                {words.may}: {shared.count(app.scopes.length)}
              </summary>
              <ul className="scopes">
                {app.scopes.map((scope) => (
                  <ScopeLine key={scope} frame={frame} scope={scope} />
                ))}
              </ul>
            </details>
            <Confirm label={words.remove(app.name)} consequence={words.consequence}>
              <Form frame={frame} action="/settings/apps">
                <input type="hidden" name="client_id" value={app.client_id} />
                <button className="danger">{words.confirm}</button>
              </Form>
            </Confirm>
          </li>
        ))}
      </ul>
    </Document>
  )
}
