import { graveScopes } from '@bursar/contract'
import type { AccountView, Frame } from '@bursar/views'
import { Document, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { ScopeLine } from '../scope-line.tsx'
import { Summary } from '../summary.tsx'
import { accountTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = Extract<AccountView, { kind: 'consent' }>

export const Consent = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { date } = speak(frame)
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, accountTexts)
  const { client, organizations, everywhere, single } = view
  const links = [
    [client.client_uri, words.about],
    [client.tos_uri, words.terms],
    [client.policy_uri, words.policy],
  ].filter((pair): pair is [string, string] => pair[0] !== null)
  return (
    <Document frame={frame} title={words.title(client.name)} narrow>
      <div className="card">
        <div className="marks" aria-hidden="true">
          <span>{client.name.charAt(0).toUpperCase()}</span>
          <span className="arrow">→</span>
          <span className="ours">B</span>
        </div>
        <h1>{words.title(client.name)}</h1>
        <p className="soft facts">
          <span>{client.host}</span>
          <span>{client.verified ? shared.verified : shared.unverified}</span>
          <span>{words.since(date(client.since))}</span>
        </p>
        <Summary frame={frame} mishap={view.mishap} />
        {!client.verified ? (
          <Notice kind="warn">{words.warning(client.host)}</Notice>
        ) : (
          view.scopes.some(({ scope }) => graveScopes.includes(scope)) && <Notice kind="warn">{words.grave}</Notice>
        )}
        <div className="you">
          <p>
            <span className="soft">{words.you}</span> <strong>{frame.person?.email}</strong>
          </p>
          <Form frame={frame} action="/logout">
            <input type="hidden" name="return_to" value={view.action} />
            <button className="quiet">{words.switch}</button>
          </Form>
        </div>
        <Form frame={frame} action={view.action} className="decision">
          <h2 id="permissions">{words.permissions}</h2>
          <ul className="scopes" aria-labelledby="permissions">
            {view.scopes.map(({ scope, fresh }) => (
              <ScopeLine key={scope} frame={frame} scope={scope} fresh={fresh} />
            ))}
          </ul>
          <fieldset>
            <legend>{words.organizations}</legend>
            {organizations.length === 0 && <p>{single ? words.noneSingle : words.none}</p>}
            {single && organizations.length > 0 && <p className="soft">{words.one}</p>}
            {!single && (
              <label className="choice wide">
                <input type="radio" name="reach" value="all" defaultChecked={everywhere} />
                <span>{words.everywhere}</span>
              </label>
            )}
            {!single && organizations.length > 0 && (
              <label className="choice">
                <input type="radio" name="reach" value="chosen" defaultChecked={!everywhere} />
                <span>{words.chosen}</span>
              </label>
            )}
            {organizations.map(({ id, name, slug, chosen }) => (
              <label key={id} className={`choice${single ? '' : ' inner'}`}>
                <input type={single ? 'radio' : 'checkbox'} name="organizations" value={id} defaultChecked={chosen && !everywhere} />
                <span>
                  {name} <span className="soft">{slug}</span>
                </span>
              </label>
            ))}
            {view.again && organizations.length > 0 && <p className="soft">{words.again}</p>}
          </fieldset>
          <div className="buttons">
            <button name="action" value="deny">
              {words.deny}
            </button>
            {(!single || organizations.length > 0) && (
              <button name="action" value="allow" className="primary armed">
                {words.allow}
              </button>
            )}
          </div>
        </Form>
        <p className="soft">
          {words.next(client.host)} {words.lasts}
        </p>
        {links.length > 0 && (
          <p className="row">
            {links.map(([href, name]) => (
              <a key={name} href={href} rel="noreferrer noopener nofollow">
                {name}
              </a>
            ))}
          </p>
        )}
      </div>
    </Document>
  )
}
