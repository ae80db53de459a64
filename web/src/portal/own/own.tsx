import type { Frame, OwnKey, PortalOwnView } from '@bursar/views'
import { complaintAt, Complaints, Confirm, Copy, Field, Form, said, speak, Status, textsIn, Markdown } from '../../kit/index.ts'
import { Portal } from '../shell.tsx'
import { Dated, Day, TimeOfDay } from '../dated.tsx'
import { portalTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props<K extends PortalOwnView['kind']> = { view: Extract<PortalOwnView, { kind: K }>; frame: Frame }

const kinds = { ready: 'good', waits: 'wait', stuck: 'bad' } as const
const keyKinds = { granted: 'good', revoked: 'off', disabled: 'bad' } as const

/** The reader's own benefits, without prices and without other people. */
export const Access = ({ view, frame }: Props<'portal-access'>) => {
  const { size } = speak(frame)
  const words = textsIn(frame, texts)
  const { shell, paid_by, keys, downloads, others } = view
  const base = `/${shell.seller.slug}/portal`
  const shown = keys.find(({ key }) => key !== null)
  return (
    <Portal frame={frame} shell={shell} section="access" title={words.accessTitle}>
      <h1>{words.accessTitle}</h1>
      {paid_by !== null && <p className="soft">{words.paidBy(paid_by)}</p>}
      <div id="own" data-says={shown && words.revealed}>
        {keys.length + downloads.length + others.length === 0 && <p className="empty">{words.empty}</p>}
        {keys.length > 0 && (
          <section aria-labelledby="keys">
            <h2 id="keys">{words.keys}</h2>
            <ul className="cards">
              {keys.map((key) => (
                <Key key={key.id} frame={frame} action={`${base}/access`} own={key} />
              ))}
            </ul>
          </section>
        )}
        {downloads.length > 0 && (
          <section aria-labelledby="downloads">
            <h2 id="downloads">{words.downloads}</h2>
            <ul className="card lines">
              {downloads.map(({ id, benefit_id, name, version, size: bytes, sha256, modified_at }) => (
                <li key={id}>
                  <div>
                    <strong>{name}</strong>
                    <p className="soft facts">
                      {version !== null && <span>{words.version(version)}</span>}
                      <span>{size(bytes)}</span>
                      {modified_at !== null && (
                        <span>
                          <Day frame={frame} at={modified_at} />
                        </span>
                      )}
                    </p>
                    {sha256 !== null && (
                      <p className="soft">
                        {words.checksum} <code id={`sum-${id}`}>{sha256}</code> <Copy frame={frame} of={`sum-${id}`} what={words.checksumOf(name)} />
                      </p>
                    )}
                  </div>
                  <a href={`${base}/download?${new URLSearchParams({ id, benefit: benefit_id }).toString()}`}>{words.download(name)}</a>
                </li>
              ))}
            </ul>
          </section>
        )}
        {others.length > 0 && (
          <section aria-labelledby="others">
            <h2 id="others">{words.others}</h2>
            <ul className="card lines">
              {others.map(({ id, type, description, note, place, state, problem }) => (
                <li key={id}>
                  <div>
                    <strong>{description}</strong>
                    {place !== null && (
                      <p className="soft">
                        {words.places[type] ?? type}: {place}
                      </p>
                    )}
                    {note !== null && <Markdown source={note} />}
                    {problem !== null && <p className="soft">{said(frame, problem)}</p>}
                  </div>
                  <Status kind={kinds[state]}>{words.states[state]}</Status>
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
    </Portal>
  )
}

const Key = ({ frame, action, own }: { frame: Frame; action: string; own: OwnKey }) => {
  const words = textsIn(frame, texts)
  const { id, name, display_key, key, status, expires_at, limit_activations, activations } = own
  return (
    <li className="card" id={`key-${id}`}>
      <div className="row first">
        <h3>{name}</h3>
        <Status kind={keyKinds[status]}>{words.keyStates[status]}</Status>
      </div>
      <div className="secret">
        <code id={`secret-${id}`} aria-label={words.key}>
          {key ?? display_key}
        </code>
        {key === null ? (
          <Form frame={frame} action={action} swap="#own">
            <input type="hidden" name="key" value={id} />
            <button name="action" value="reveal" id={`reveal-${id}`} aria-label={words.reveal(name)}>
              {words.revealShort}
            </button>
          </Form>
        ) : (
          <Copy frame={frame} of={`secret-${id}`} what={name} />
        )}
      </div>
      <p className="soft facts">
        {limit_activations !== null && <span>{words.activations(activations.length, limit_activations)}</span>}
        {expires_at !== null && (
          <span>
            <Dated frame={frame} at={expires_at} text={words.until} />
          </span>
        )}
      </p>
      {activations.length > 0 && (
        <ul className="lines">
          {activations.map((one) => (
            <li key={one.id}>
              <div>
                {one.label}{' '}
                <span className="soft">
                  <Dated frame={frame} at={one.created_at} text={words.since} />
                </span>
              </div>
              <Confirm label={words.remove(one.label)} consequence={words.removeConsequence}>
                <Form frame={frame} action={action}>
                  <input type="hidden" name="key" value={id} />
                  <input type="hidden" name="activation" value={one.id} />
                  <button name="action" value="deactivate" className="danger">
                    {words.removeConfirm}
                  </button>
                </Form>
              </Confirm>
            </li>
          ))}
        </ul>
      )}
      {status === 'granted' && (
        <details className="more">
          <summary>{words.rotate}</summary>
          <p>{words.rotateConsequence}</p>
          <Form frame={frame} action={action}>
            <input type="hidden" name="key" value={id} />
            <button name="action" value="rotate" className="danger">
              {words.rotateConfirm}
            </button>
          </Form>
        </details>
      )}
    </li>
  )
}

/** The reader's account data, and the fields that can be changed. */
export const Account = ({ view, frame }: Props<'portal-account'>) => {
  const { t } = speak(frame)
  const shared = textsIn(frame, portalTexts)
  const words = textsIn(frame, texts)
  const { shell, customer, can_change_email, wished, expires_at } = view
  const { reader, seller, complaints } = shell
  const base = `/${seller.slug}/portal`
  const facts: readonly (readonly [string, string | null])[] = [
    [words.name, reader.name],
    [words.email, reader.email],
    [words.role, reader.role === null ? null : (shared.roles[reader.role] ?? reader.role)],
    [words.team, customer.team ? customer.name : null],
  ]
  return (
    <Portal frame={frame} shell={{ ...shell, complaints: [] }} section="account" title={words.accountTitle}>
      <h1>{words.accountTitle}</h1>
      <div className="card">
        <dl>
          {facts.map(
            ([name, value]) =>
              value !== null && (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ),
          )}
        </dl>
        {!reader.manages && <p className="soft">{words.memberHint}</p>}
      </div>
      {can_change_email && (
        <section className="card slim" aria-labelledby="change">
          <h2 id="change">{words.changeTitle(customer.team ? customer.name : null)}</h2>
          <Complaints frame={frame} complaints={complaints} />
          <Form frame={frame} action={`${base}/account`}>
            <Field
              name="email"
              label={words.newEmail}
              type="email"
              inputMode="email"
              autoComplete="email"
              value={wished}
              {...(customer.email === null ? {} : { hint: words.changeNow(customer.email) })}
              error={complaintAt(frame, complaints, 'email')}
            />
            <button className="primary">{words.change}</button>
          </Form>
        </section>
      )}
      <section className="card" aria-labelledby="session">
        <h2 id="session">{words.sessionTitle}</h2>
        <p>
          {words.session} <TimeOfDay frame={frame} at={expires_at} />.
        </p>
        <Form frame={frame} action={`${base}/sign-out`}>
          <button>{t.signOut}</button>
        </Form>
      </section>
    </Portal>
  )
}

/** The page that members see instead of a managers' page. */
export const Forbidden = ({ view: { shell }, frame }: Props<'portal-forbidden'>) => {
  const words = textsIn(frame, texts)
  return (
    <Portal frame={frame} shell={{ ...shell, flow: null }} section={null} title={words.forbiddenTitle}>
      <div className="card">
        <h1>{words.forbiddenTitle}</h1>
        <p>{words.forbidden}</p>
        <a href={`/${shell.seller.slug}/portal/access`}>{words.toAccess}</a>
      </div>
    </Portal>
  )
}
