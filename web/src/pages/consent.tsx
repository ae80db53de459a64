import { graveScopes, type Frame, type View } from '@bursar/contract'
import { Document, Form, Notice, ScopeLine, speak, Summary } from '../kit.tsx'

type Props = Extract<View, { kind: 'consent' }>

export const Consent = ({ view, frame }: { view: Props; frame: Frame }) => {
  const { t, date } = speak(frame)
  const { client, organizations, everywhere, single } = view
  const links = [
    [client.client_uri, t.consent.about],
    [client.tos_uri, t.consent.terms],
    [client.policy_uri, t.consent.policy],
  ].filter((pair): pair is [string, string] => pair[0] !== null)
  return (
    <Document frame={frame} title={t.consent.title(client.name)} narrow>
      <div className="card">
        <div className="marks" aria-hidden="true">
          <span>{client.name.charAt(0).toUpperCase()}</span>
          <span className="arrow">→</span>
          <span className="ours">B</span>
        </div>
        <h1>{t.consent.title(client.name)}</h1>
        <p className="soft facts">
          <span>{client.host}</span>
          <span>{client.verified ? t.consent.verified : t.consent.unverified}</span>
          <span>{t.consent.since(date(client.since))}</span>
        </p>
        <Summary frame={frame} mishap={view.mishap} />
        {!client.verified ? (
          <Notice kind="warn">{t.consent.warning(client.host)}</Notice>
        ) : (
          view.scopes.some(({ scope }) => graveScopes.includes(scope)) && <Notice kind="warn">{t.consent.grave}</Notice>
        )}
        <div className="you">
          <p>
            <span className="soft">{t.consent.you}</span> <strong>{frame.person?.email}</strong>
          </p>
          <Form frame={frame} action="/logout">
            <input type="hidden" name="return_to" value={view.action} />
            <button className="quiet">{t.consent.switch}</button>
          </Form>
        </div>
        <Form frame={frame} action={view.action} className="decision">
          <h2 id="permissions">{t.consent.permissions}</h2>
          <ul className="scopes" aria-labelledby="permissions">
            {view.scopes.map(({ scope, fresh }) => (
              <ScopeLine key={scope} frame={frame} scope={scope} fresh={fresh} />
            ))}
          </ul>
          <fieldset>
            <legend>{t.consent.organizations}</legend>
            {organizations.length === 0 && <p>{single ? t.consent.noneSingle : t.consent.none}</p>}
            {single && organizations.length > 0 && <p className="soft">{t.consent.one}</p>}
            {!single && organizations.length > 0 && (
              <label className="choice">
                <input type="radio" name="reach" value="chosen" defaultChecked={!everywhere} />
                <span>{t.consent.chosen}</span>
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
            {!single && (
              <label className="choice wide">
                <input type="radio" name="reach" value="all" defaultChecked={everywhere} />
                <span>{t.consent.everywhere}</span>
              </label>
            )}
          </fieldset>
          <div className="buttons">
            <button name="action" value="deny">
              {t.consent.deny}
            </button>
            {(!single || organizations.length > 0) && (
              <button name="action" value="allow" className="primary armed">
                {t.consent.allow}
              </button>
            )}
          </div>
        </Form>
        <p className="soft">
          {t.consent.next(client.host)} {t.consent.lasts}
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
