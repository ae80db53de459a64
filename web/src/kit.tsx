import { exponentsOf, localeNames, locales, themes, type Complaint, type Frame, type Mishap, type Scope } from '@bursar/contract'
import type { ReactNode } from 'react'
import { de } from './messages/de.ts'
import { en, type Messages } from './messages/en.ts'

const catalogues: Record<Frame['locale'], Messages> = { en, de }

/** The reader's words, and dates as they write them. */
export const speak = ({ locale }: Frame) => ({
  t: catalogues[locale],
  date: (at: Date | string) => new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' }).format(new Date(at)),
  /** Minor units as a reader expects them; what is below zero says so in its sign. */
  money: (amount: number, currency: string) => {
    const { wire, display } = exponentsOf(currency)
    const whole = amount % 10 ** Math.max(0, wire - display) === 0
    return new Intl.NumberFormat(locale, {
      style: 'currency',
      currency,
      minimumFractionDigits: whole ? display : wire,
      maximumFractionDigits: whole ? display : wire,
    }).format(amount / 10 ** wire)
  },
  number: (value: number) => new Intl.NumberFormat(locale).format(value),
  /** As `1.5 MB`. */
  size: (bytes: number) => {
    const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
    const at = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
    return new Intl.NumberFormat(locale, { style: 'unit', unit: units[at]!, unitDisplay: 'short', maximumFractionDigits: 1 }).format(bytes / 1000 ** at)
  },
})

export interface PageProps {
  readonly frame: Frame
  readonly title: string
  readonly children: ReactNode
  /** A single task, with nothing beside it. */
  readonly narrow?: boolean
  /** Whose page it is to the reader: a seller's, where it is not our own. */
  readonly seller?: string
  /** What stands beside the name, in place of the account's own navigation. */
  readonly beside?: ReactNode
  /** The page is sent with our script. */
  readonly script?: boolean
  /** Other scripts, besides. */
  readonly scripts?: readonly string[]
  /** Shows itself again after so many seconds: for what is still being done. */
  readonly refresh?: number | null
}

/** The whole document: landmarks, one heading, the sandbox bar, and the way to other languages and colours. */
export const Document = ({ frame, title, children, narrow = false, seller, beside, script = false, scripts = [], refresh }: PageProps) => {
  const { t } = speak(frame)
  // With our script the page renews itself without being loaded again: nobody loses their place.
  const again = refresh ? <meta httpEquiv="refresh" content={String(refresh)} /> : null
  return (
    <html lang={frame.locale} data-theme={frame.theme}>
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={frame.theme === 'system' ? 'light dark' : frame.theme} />
        <meta name="robots" content="noindex" />
        {refresh && (script ? <noscript>{again}</noscript> : again)}
        <title>{`${title} – ${seller ?? t.product}${frame.sandbox ? ' (Sandbox)' : ''}`}</title>
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/assets/app.css" />
        {script && <script src="/assets/app.js" defer />}
        {scripts.map((src) => (
          <script key={src} src={src} defer />
        ))}
      </head>
      <body>
        <a className="skip" href="#content">
          {t.skip}
        </a>
        <header>
          {frame.sandbox && <p className="sandbox">{t.sandbox}</p>}
          <div className="bar">
            <span className="mark">{seller ?? t.product}</span>
            {seller === undefined && !narrow && <Navigation frame={frame} />}
            {beside}
            {seller === undefined && frame.person && !narrow && (
              <Form frame={frame} action="/logout" className="who">
                <span className="soft">{frame.person.email}</span>
                <button className="quiet">{t.signOut}</button>
              </Form>
            )}
          </div>
        </header>
        <main id="content" className={narrow ? 'narrow' : undefined} tabIndex={-1} data-refresh={script && refresh ? refresh : undefined}>
          {children}
          {script && <p id="said" className="hidden" role="status" />}
        </main>
        <footer>
          <Form frame={frame} action="/preferences" className="preferences" label={t.preferences}>
            <input type="hidden" name="return_to" value={frame.path} />
            <label>
              <span>{t.language}</span>
              <select name="locale" defaultValue={frame.locale}>
                {locales.map((locale) => (
                  <option key={locale} value={locale} lang={locale}>
                    {localeNames[locale]}
                  </option>
                ))}
              </select>
            </label>
            <label>
              <span>{t.theme}</span>
              <select name="theme" defaultValue={frame.theme}>
                {themes.map((theme) => (
                  <option key={theme} value={theme}>
                    {t.themes[theme]}
                  </option>
                ))}
              </select>
            </label>
            <button className="quiet">{t.apply}</button>
          </Form>
        </footer>
      </body>
    </html>
  )
}

const Navigation = ({ frame }: { frame: Frame }) => {
  const { t } = speak(frame)
  const places = [
    ...(frame.person
      ? ([
          ['/settings/apps', t.nav.apps],
          ['/settings/tokens', t.nav.tokens],
          ['/settings/security', t.nav.security],
        ] as const)
      : []),
    ...(frame.development ? ([['/mailbox', t.nav.mailbox]] as const) : []),
  ]
  if (places.length === 0) return null
  const here = frame.path.split('?')[0]!
  return (
    <nav aria-label={t.navigation}>
      {places.map(([path, name]) => (
        <a key={path} href={path} aria-current={here === path ? 'page' : undefined}>
          {name}
        </a>
      ))}
    </nav>
  )
}

/** A form of ours: it carries the proof that it came from here. */
export const Form = ({
  frame,
  action,
  children,
  className,
  label,
  swap,
}: {
  frame: Frame
  action: string
  children: ReactNode
  className?: string
  label?: string
  /** The part of the page that the answer replaces, as a selector. */
  swap?: string
}) => (
  <form method="post" action={action} className={className} aria-label={label} data-swap={swap}>
    <input type="hidden" name="csrf" value={frame.csrf} />
    {children}
  </form>
)

export interface FieldProps {
  readonly name: string
  readonly label: string
  readonly value?: string
  readonly type?: string
  readonly hint?: string
  readonly error?: string | undefined
  readonly autoComplete?: string
  readonly inputMode?: 'numeric' | 'email' | 'text'
  readonly autoFocus?: boolean
  readonly required?: boolean
  readonly min?: number | undefined
  readonly max?: number | undefined
  /** The button to press when it was changed: its id. */
  readonly live?: string
}

interface Said {
  readonly name: string
  readonly label: string
  readonly hint: string | undefined
  readonly error: string | undefined
}

/** What stands around something to fill in: its label, its hint and its error. */
const Labelled = ({ name, label, hint, error, children }: Said & { readonly children: ReactNode }) => (
  <div className="field">
    <label htmlFor={name}>{label}</label>
    {hint && (
      <p id={`${name}-hint`} className="soft">
        {hint}
      </p>
    )}
    {children}
    {error && (
      <p id={`${name}-error`} className="error">
        {error}
      </p>
    )}
  </div>
)

/** Ties hint and error to what they are about. */
const described = ({ name, hint, error }: Omit<Said, 'label'>) => ({
  'aria-describedby': [hint && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ') || undefined,
  'aria-invalid': error ? true : undefined,
})

/** One labelled input; its hint and its error are tied to it. */
export const Field = ({
  name,
  label,
  value,
  type = 'text',
  hint,
  error,
  autoComplete = 'off',
  inputMode,
  autoFocus = false,
  required = true,
  min,
  max,
  live,
}: FieldProps) => {
  return (
    <Labelled {...{ name, label, hint, error }}>
      <input
        id={name}
        name={name}
        type={type}
        defaultValue={value}
        autoComplete={autoComplete}
        inputMode={inputMode}
        autoCapitalize="none"
        spellCheck={false}
        required={required}
        min={min}
        max={max}
        data-live={live}
        autoFocus={autoFocus}
        {...described({ name, hint, error })}
      />
    </Labelled>
  )
}

/** A select with its label, hint and error, as a field has them. */
export const Choice = ({
  name,
  label,
  value,
  error,
  required = true,
  live,
  autoComplete,
  children,
  hint,
}: {
  name: string
  label: string
  value: string
  error: string | undefined
  required?: boolean
  live?: string
  autoComplete?: string
  hint?: string | undefined
  children: ReactNode
}) => (
  <Labelled {...{ name, label, hint, error }}>
    <select id={name} name={name} defaultValue={value} required={required} data-live={live} autoComplete={autoComplete} {...described({ name, hint, error })}>
      {children}
    </select>
  </Labelled>
)

/** What was wrong, above everything else. */
export const Summary = ({ frame, mishap, more }: { frame: Frame; mishap: Mishap | null; more?: string | null }) => {
  const { t } = speak(frame)
  return (
    mishap && (
      <div className="notice bad" role="alert">
        <strong>{t.check}</strong>
        <p>
          {t.mishaps[mishap]} {more}
        </p>
        {mishap === 'session_old' && <a href={`/login?again=1&return_to=${encodeURIComponent(frame.path)}`}>{t.signIn.title}</a>}
      </div>
    )
  )
}

/**
 * A complaint of the API in the reader's words: of its field, or of its kind. What has none is said as the API says it to
 * whoever reads its language, and to others in a sentence that is theirs.
 */
export const said = (frame: Frame, { loc, type, msg }: Complaint): string => {
  const { t } = speak(frame)
  const field = loc
    .slice(1)
    .join('.')
    .replace(/^customer_/, '')
  const missing = type === 'missing' && !field.startsWith('billing_address')
  const own = missing ? undefined : (t.wrong[field] ?? t.wrong[field.split('.')[0]! + '.'])
  return type === 'worded' ? msg : (own ?? t.complaints[type] ?? (frame.locale === 'en' && msg !== '' ? msg : t.complaints.other!))
}

/** Why a card was refused, in the reader's words. */
export const refusedBy = (frame: Frame, why: string): string => {
  const { declines } = speak(frame).t.checkout
  return declines[why] ?? (frame.locale === 'en' && why !== '' ? why : declines.other!)
}

/** What the API said of one field. */
export const complaintAt = (frame: Frame, complaints: readonly Complaint[], ...loc: readonly (string | number)[]): string | undefined => {
  const found = complaints.find((one) => one.loc.length === loc.length + 1 && loc.every((part, at) => one.loc[at + 1] === part))
  return found && said(frame, found)
}

/** Everything the API complained about, above the form; each leads to its field, where there is one. */
export const Complaints = ({ frame, complaints }: { frame: Frame; complaints: readonly Complaint[] }) => {
  const { t } = speak(frame)
  if (complaints.length === 0) return null
  return (
    <div className="notice bad" role="alert">
      <strong>{t.check}</strong>
      <ul>
        {complaints.map((one) => (
          <li key={`${one.loc.join('.')} ${one.type}`}>
            {one.loc.length > 1 ? <a href={`#${one.loc.slice(1).join('.')}`}>{said(frame, one)}</a> : said(frame, one)}
          </li>
        ))}
      </ul>
    </div>
  )
}

/** How much is done: the number in words, and a bar whose length is an attribute, because the policy takes no inline style. */
export const Progress = ({ label, done, of }: { label: string; done: number; of: number }) => (
  <div className="progress">
    <p id="progress-label">{label}</p>
    <progress aria-labelledby="progress-label" value={done} max={Math.max(1, of)} />
  </div>
)

/** A state in a word with a shape of its own: nobody has to tell colours apart. */
export const Status = ({ kind, children }: { kind: 'good' | 'wait' | 'bad' | 'off'; children: ReactNode }) => (
  <span className={`status ${kind}`}>
    <svg aria-hidden="true" viewBox="0 0 10 10" width="10" height="10">
      {kind === 'good' && <path d="M1 5l3 3 5-6" fill="none" stroke="currentColor" strokeWidth="2" />}
      {kind === 'wait' && <circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" strokeWidth="2" strokeDasharray="3 2" />}
      {kind === 'bad' && <path d="M5 1l4 8H1z" fill="currentColor" />}
      {kind === 'off' && <rect x="1" y="4" width="8" height="2" fill="currentColor" />}
    </svg>
    {children}
  </span>
)

export const Notice = ({ children, kind = 'good' }: { children: ReactNode; kind?: 'good' | 'warn' }) => (
  <div className={`notice ${kind}`} role={kind === 'good' ? 'status' : 'note'}>
    {children}
  </div>
)

/** Something that cannot be taken back: the first press says what will happen, the second does it. */
export const Confirm = ({ label, consequence, children }: { label: string; consequence: string; children: ReactNode }) => (
  <details className="confirm">
    <summary className="danger">{label}</summary>
    <p>{consequence}</p>
    {children}
  </details>
)

/** What a scope allows, as a sentence with its mark. */
export const ScopeLine = ({ frame, scope, fresh = false }: { frame: Frame; scope: Scope; fresh?: boolean }) => {
  const { t } = speak(frame)
  const writes = scope.endsWith(':write')
  return (
    <li>
      <span className={`mark-${writes ? 'write' : 'read'}`}>{writes ? t.consent.marks.write : t.consent.marks.read}</span>
      <span>{t.scopes[scope]}</span>
      {fresh && <span className="fresh">{t.consent.fresh}</span>}
    </li>
  )
}
