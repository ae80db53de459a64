import { scopes as everyScope, tokenDays, tokenPresets, type Frame, type TokenLine, type View } from '@bursar/contract'
import { Confirm, Document, Field, Form, Notice, ScopeLine, speak, Summary } from '../kit.tsx'

type Props<K extends View['kind']> = { view: Extract<View, { kind: K }>; frame: Frame }

export const Apps = ({ view, frame }: Props<'apps'>) => {
  const { t, date } = speak(frame)
  return (
    <Document frame={frame} title={t.apps.title}>
      <h1>{t.apps.title}</h1>
      <p className="soft">{t.apps.intro}</p>
      {view.withdrawn !== null && <Notice>{t.apps.removed(view.withdrawn)}</Notice>}
      {view.apps.length === 0 && <p className="empty">{t.apps.empty}</p>}
      <ul className="cards">
        {view.apps.map((app) => (
          <li key={app.client_id} className="card">
            <h2>
              {app.name} <span className="tag">{app.verified ? t.consent.verified : t.consent.unverified}</span>
            </h2>
            <p className="soft">
              {t.apps.since(date(app.created_at))}, {t.apps.last(date(app.last_authorized_at))}
            </p>
            <p>
              {t.apps.where}{' '}
              {app.organizations === null
                ? t.apps.everywhere
                : app.organizations.length === 0
                  ? t.apps.nowhere
                  : new Intl.ListFormat(frame.locale).format(app.organizations)}
            </p>
            <details>
              <summary>
                {t.apps.may}: {t.tokens.count(app.scopes.length)}
              </summary>
              <ul className="scopes">
                {app.scopes.map((scope) => (
                  <ScopeLine key={scope} frame={frame} scope={scope} />
                ))}
              </ul>
            </details>
            <Confirm label={t.apps.remove(app.name)} consequence={t.apps.consequence}>
              <Form frame={frame} action="/settings/apps">
                <input type="hidden" name="client_id" value={app.client_id} />
                <button className="danger">{t.apps.confirm}</button>
              </Form>
            </Confirm>
          </li>
        ))}
      </ul>
    </Document>
  )
}

const day = 24 * 3600 * 1000

export const Tokens = ({ view, frame }: Props<'tokens'>) => {
  const { t, date } = speak(frame)
  const { owner, draft, made } = view
  const here = owner.kind === 'personal' ? '/settings/tokens' : `/settings/organizations/${owner.id}/tokens`
  const title = owner.kind === 'personal' ? t.tokens.personalTitle : t.tokens.organizationTitle(owner.name)
  const places: [string, string][] = [
    ['/settings/tokens', t.tokens.personal],
    ...view.organizations.map(({ id, name }): [string, string] => [`/settings/organizations/${id}/tokens`, name]),
  ]
  return (
    <Document frame={frame} title={title}>
      <nav aria-label={t.tokens.whose} className="tabs">
        {places.map(([path, name]) => (
          <a key={path} href={path} aria-current={path === here ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <h1>{title}</h1>
      <p className="soft">{owner.kind === 'personal' ? t.tokens.personalIntro : t.tokens.organizationIntro}</p>
      <Summary frame={frame} mishap={view.mishap} />
      {view.revoked && <Notice>{t.tokens.revoked}</Notice>}
      {made && (
        <section className="card made" aria-labelledby="made">
          <h2 id="made">{t.tokens.made(made.comment)}</h2>
          <p>
            <strong>{t.tokens.once}</strong>
          </p>
          <Code label={t.tokens.token} text={made.token} />
          <Code label={t.tokens.env} text={`BURSAR_TOKEN=${made.token}`} />
          <Code label={t.tokens.curl} text={'curl -H "Authorization: Bearer $BURSAR_TOKEN" "$BURSAR_API/v1/organizations/"'} />
        </section>
      )}
      {view.tokens.length === 0 ? (
        <div className="empty">
          <p>{t.tokens.empty}</p>
          {owner.kind === 'organization' && <p>{t.tokens.emptyCommand}</p>}
          {owner.kind === 'organization' && (
            <pre tabIndex={0}>pnpm bursar token create --organization {owner.slug} --comment "orders export" --scopes orders:read --days 90</pre>
          )}
        </div>
      ) : (
        <TokenTable tokens={view.tokens} action={here} />
      )}
      <section className="card" aria-labelledby="create">
        <h2 id="create">{t.tokens.create}</h2>
        <Form frame={frame} action={here}>
          <Field
            name="comment"
            label={t.tokens.name}
            hint={t.tokens.nameHint}
            value={draft.comment}
            error={view.mishap === 'name_missing' ? t.mishaps.name_missing : undefined}
          />
          <fieldset>
            <legend>{t.tokens.preset}</legend>
            {[...(Object.keys(tokenPresets) as (keyof typeof tokenPresets)[]), 'custom' as const].map((preset) => (
              <label key={preset} className="choice">
                <input type="radio" name="preset" value={preset} defaultChecked={draft.preset === preset} />
                <span>{t.tokens.presets[preset]}</span>
              </label>
            ))}
          </fieldset>
          <details open={draft.preset === 'custom'}>
            <summary>{t.tokens.scopes}</summary>
            <p className="soft">{t.tokens.scopesHint}</p>
            <div className="grid">
              {everyScope.map((scope) => (
                <label key={scope} className="choice">
                  <input type="checkbox" name="scopes" value={scope} defaultChecked={draft.scopes.includes(scope)} />
                  <span>
                    {t.scopes[scope]} <code>{scope}</code>
                  </span>
                </label>
              ))}
            </div>
          </details>
          <div className="field">
            <label htmlFor="days">{t.tokens.expires}</label>
            <select id="days" name="days" defaultValue={draft.days}>
              {tokenDays.map((count) => (
                <option key={count} value={count}>
                  {t.tokens.days(count)}
                </option>
              ))}
              <option value="forever">{t.tokens.forever}</option>
            </select>
          </div>
          <label className="choice">
            <input type="checkbox" name="forever" value="1" />
            <span>{t.tokens.foreverTick}</span>
          </label>
          <button className="primary">{t.tokens.submit}</button>
        </Form>
      </section>
    </Document>
  )

  function TokenTable({ tokens, action }: { tokens: readonly TokenLine[]; action: string }) {
    const now = frame.now.getTime()
    const left = (at: Date) => Math.ceil((at.getTime() - now) / day)
    const used = (token: TokenLine) => {
      const last = token.last_used_at ?? token.created_at
      const idle = now - last.getTime() > 30 * day
      return (
        <>
          {token.last_used_at ? date(token.last_used_at) : t.tokens.neverUsed}
          {idle && <span className="hint">{t.tokens.idle}</span>}
        </>
      )
    }
    const expiry = ({ expires_at }: TokenLine) => {
      if (!expires_at) return t.tokens.never
      const days = left(expires_at)
      if (days <= 0) return <span className="hint">{t.tokens.expired}</span>
      return (
        <>
          {date(expires_at)}
          {days <= 14 && <span className="hint">{t.tokens.soon(days)}</span>}
        </>
      )
    }
    const { columns } = t.tokens
    return (
      <div className="scroll" tabIndex={0} role="region" aria-label={title}>
        <table>
          <thead>
            <tr>
              <th scope="col">{columns.name}</th>
              <th scope="col">{columns.permissions}</th>
              <th scope="col">{columns.used}</th>
              <th scope="col">{columns.expires}</th>
              <th scope="col">
                <span className="hidden">{columns.action}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.id}>
                <th scope="row" data-label={columns.name}>
                  {token.comment}
                  <code>{token.hint}</code>
                </th>
                <td data-label={columns.permissions} title={token.scopes.join(' ')}>
                  {token.scopes.length <= 2 ? token.scopes.join(', ') : t.tokens.count(token.scopes.length)}
                </td>
                <td data-label={columns.used}>{used(token)}</td>
                <td data-label={columns.expires}>{expiry(token)}</td>
                <td>
                  <Confirm label={t.tokens.revoke(token.comment)} consequence={t.tokens.consequence}>
                    <Form frame={frame} action={action}>
                      <input type="hidden" name="revoke" value={token.id} />
                      <button className="danger">{t.tokens.confirm}</button>
                    </Form>
                  </Confirm>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    )
  }
}

const Code = ({ label, text }: { label: string; text: string }) => (
  <div className="field">
    <span className="soft">{label}</span>
    <pre tabIndex={0} aria-label={label}>
      {text}
    </pre>
  </div>
)

export const Security = ({ view, frame }: Props<'security'>) => {
  const { t } = speak(frame)
  const { state, setup, recovery_codes, mishap } = view
  const error = mishap ? t.mishaps[mishap] : undefined
  return (
    <Document frame={frame} title={t.security.title}>
      <h1>{t.security.title}</h1>
      <p className="soft">{t.security.intro}</p>
      {view.required && state !== 'on' && <Notice kind="warn">{t.security.required}</Notice>}
      <Summary frame={frame} mishap={mishap} />
      {recovery_codes && (
        <section className="card made" aria-labelledby="codes">
          <h2 id="codes">{t.security.codesTitle}</h2>
          <p>{t.security.codes}</p>
          <pre tabIndex={0} aria-labelledby="codes">
            {recovery_codes.join('\n')}
          </pre>
        </section>
      )}
      <section className="card">
        {state === 'on' && (
          <>
            <p>
              <strong>{t.security.on}</strong> {t.security.left(view.recovery_left)}
            </p>
            <Form frame={frame} action="/settings/security">
              <Field name="code" label={t.signIn.factor} hint={t.security.endHint} autoComplete="one-time-code" error={error} />
              <button className="danger" name="action" value="end">
                {t.security.end}
              </button>
            </Form>
          </>
        )}
        {state === 'off' && (
          <>
            <p>{t.security.off}</p>
            <Form frame={frame} action="/settings/security">
              <button className="primary" name="action" value="begin">
                {t.security.begin}
              </button>
            </Form>
          </>
        )}
        {setup && (
          <>
            <h2>{t.security.setup}</h2>
            <Code label={t.security.secret} text={(setup.secret.match(/.{1,4}/g) ?? []).join(' ')} />
            <p>
              <a href={setup.uri}>{t.security.link}</a>
            </p>
            <Form frame={frame} action="/settings/security">
              <Field name="code" label={t.security.code} autoComplete="one-time-code" inputMode="numeric" error={error} />
              <button className="primary" name="action" value="confirm">
                {t.security.confirm}
              </button>
            </Form>
          </>
        )}
      </section>
    </Document>
  )
}

export const Mailbox = ({ view, frame }: Props<'mailbox'>) => {
  const { t } = speak(frame)
  return (
    <Document frame={frame} title={t.mailbox.title}>
      <h1>{t.mailbox.title}</h1>
      <p className="soft">{t.mailbox.intro}</p>
      {view.letters.length === 0 && <p className="empty">{t.mailbox.empty}</p>}
      <ul className="cards">
        {view.letters.map((letter, at) => (
          <li key={at} className="card">
            <h2>{letter.subject}</h2>
            <p className="soft">
              {t.mailbox.to} {letter.to} · <time dateTime={letter.at.toISOString()}>{letter.at.toISOString().slice(0, 16).replace('T', ' ')} UTC</time>
            </p>
            <pre tabIndex={0} aria-label={letter.subject}>
              {letter.text}
            </pre>
          </li>
        ))}
      </ul>
    </Document>
  )
}

export const Leaving = ({ view, frame }: Props<'leaving'>) => {
  const { t } = speak(frame)
  return (
    <Document frame={frame} title={t.leaving.title} narrow>
      <div className="card">
        <h1>{t.leaving.title}</h1>
        <p>
          <a href={view.to}>{t.leaving.link(new URL(view.to).host)}</a>
        </p>
      </div>
    </Document>
  )
}

export const Problem = ({ view, frame }: Props<'problem'>) => {
  const { t } = speak(frame)
  const waits = view.retry_after ?? null
  return (
    <Document frame={frame} title={t.problem.title} narrow script={waits !== null} refresh={waits}>
      <div className="card">
        <h1>{t.problem.title}</h1>
        <p>{t.problem.known[view.error] ?? t.problem.other}</p>
        {waits !== null && <p>{t.problem.retrying(waits)}</p>}
        {view.status < 500 && waits === null && <p className="soft">{t.problem.unchanged}</p>}
        {(view.description !== '' || view.request_id) && (
          <details open={view.description !== ''}>
            <summary>{t.problem.developers}</summary>
            <p>
              <code>{view.error}</code>
              {view.description !== '' && `: ${view.description}`}
            </p>
            {view.request_id && (
              <p>
                {t.problem.requestId} <code>{view.request_id}</code>
              </p>
            )}
          </details>
        )}
        {!view.visitor && (
          <p>
            <a href="/settings/apps">{t.problem.home}</a>
          </p>
        )}
      </div>
    </Document>
  )
}
