import { scopes as everyScope } from '@bursar/contract'
import { tokenDays, tokenPresets, type AccountView, type Frame, type TokenLine } from '@bursar/views'
import { Confirm, Document, Field, Form, Notice, speak, textsIn } from '../../kit/index.ts'
import { Code } from '../code.tsx'
import { Summary } from '../summary.tsx'
import { accountTexts } from '../texts.ts'
import { de } from './de.ts'
import { en } from './en.ts'

const texts = { en, de }

type Props = { view: Extract<AccountView, { kind: 'tokens' }>; frame: Frame }

const day = 24 * 3600 * 1000

export const Tokens = ({ view, frame }: Props) => {
  const { date } = speak(frame)
  const words = textsIn(frame, texts)
  const shared = textsIn(frame, accountTexts)
  const { owner, draft, made } = view
  const here = owner.kind === 'personal' ? '/settings/tokens' : `/settings/organizations/${owner.id}/tokens`
  const title = owner.kind === 'personal' ? words.personalTitle : words.organizationTitle(owner.name)
  const places: [string, string][] = [
    ['/settings/tokens', words.personal],
    ...view.organizations.map(({ id, name }): [string, string] => [`/settings/organizations/${id}/tokens`, name]),
  ]
  return (
    <Document frame={frame} title={title}>
      <nav aria-label={words.whose} className="tabs">
        {places.map(([path, name]) => (
          <a key={path} href={path} aria-current={path === here ? 'page' : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <h1>{title}</h1>
      <p className="soft">{owner.kind === 'personal' ? words.personalIntro : words.organizationIntro}</p>
      <Summary frame={frame} mishap={view.mishap} />
      {view.revoked && <Notice>{words.revoked}</Notice>}
      {made && (
        <section className="card made" aria-labelledby="made">
          <h2 id="made">{words.made(made.comment)}</h2>
          <p>
            <strong>{words.once}</strong>
          </p>
          <Code label={words.token} text={made.token} />
          <Code label={words.env} text={`BURSAR_TOKEN=${made.token}`} />
          <Code label={words.curl} text={'curl -H "Authorization: Bearer $BURSAR_TOKEN" "$BURSAR_API/v1/organizations/"'} />
        </section>
      )}
      {view.tokens.length === 0 ? (
        <div className="empty">
          <p>{words.empty}</p>
          {owner.kind === 'organization' && <p>{words.emptyCommand}</p>}
          {owner.kind === 'organization' && (
            <pre tabIndex={0}>bursar token create --organization {owner.slug} --comment "orders export" --scopes orders:read --days 90</pre>
          )}
        </div>
      ) : (
        <TokenTable tokens={view.tokens} action={here} />
      )}
      <section className="card" aria-labelledby="create">
        <h2 id="create">{words.create}</h2>
        <Form frame={frame} action={here}>
          <Field
            name="comment"
            label={words.name}
            hint={words.nameHint}
            value={draft.comment}
            error={view.mishap === 'name_missing' ? shared.mishaps.name_missing : undefined}
          />
          <fieldset>
            <legend>{words.preset}</legend>
            {[...(Object.keys(tokenPresets) as (keyof typeof tokenPresets)[]), 'custom' as const].map((preset) => (
              <label key={preset} className="choice">
                <input type="radio" name="preset" value={preset} defaultChecked={draft.preset === preset} />
                <span>{words.presets[preset]}</span>
              </label>
            ))}
          </fieldset>
          <details open={draft.preset === 'custom'}>
            <summary>{words.scopes}</summary>
            <p className="soft">{words.scopesHint}</p>
            <div className="grid">
              {everyScope.map((scope) => (
                <label key={scope} className="choice">
                  <input type="checkbox" name="scopes" value={scope} defaultChecked={draft.scopes.includes(scope)} />
                  <span>
                    {shared.scopes[scope]} <code>{scope}</code>
                  </span>
                </label>
              ))}
            </div>
          </details>
          <div className="field">
            <label htmlFor="days">{words.expires}</label>
            <select id="days" name="days" defaultValue={draft.days}>
              {tokenDays.map((count) => (
                <option key={count} value={count}>
                  {words.days(count)}
                </option>
              ))}
              <option value="forever">{words.forever}</option>
            </select>
          </div>
          <label className="choice">
            <input type="checkbox" name="forever" value="1" />
            <span>{words.foreverTick}</span>
          </label>
          <button className="primary">{words.submit}</button>
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
          {token.last_used_at ? date(token.last_used_at) : words.neverUsed}
          {idle && <span className="hint">{words.idle}</span>}
        </>
      )
    }
    const expiry = ({ expires_at }: TokenLine) => {
      if (!expires_at) return words.never
      const days = left(expires_at)
      if (days <= 0) return <span className="hint">{words.expired}</span>
      return (
        <>
          {date(expires_at)}
          {days <= 14 && <span className="hint">{words.soon(days)}</span>}
        </>
      )
    }
    const { columns } = textsIn(frame, texts)
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
                  {token.scopes.length <= 2 ? token.scopes.join(', ') : shared.count(token.scopes.length)}
                </td>
                <td data-label={columns.used}>{used(token)}</td>
                <td data-label={columns.expires}>{expiry(token)}</td>
                <td>
                  <Confirm label={words.revoke(token.comment)} consequence={words.consequence}>
                    <Form frame={frame} action={action}>
                      <input type="hidden" name="revoke" value={token.id} />
                      <button className="danger">{words.confirm}</button>
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
