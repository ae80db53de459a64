import { localeNames, locales, themes, type Frame, type Mishap, type Scope } from '@bursar/contract'
import type { ReactNode } from 'react'
import { de } from './messages/de.ts'
import { en, type Messages } from './messages/en.ts'

const catalogues: Record<Frame['locale'], Messages> = { en, de }

/** The reader's words, and dates as they write them. */
export const speak = ({ locale }: Frame) => ({
  t: catalogues[locale],
  date: (at: Date) => new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone: 'UTC' }).format(at),
})

export interface PageProps {
  readonly frame: Frame
  readonly title: string
  readonly children: ReactNode
  /** A single task, with nothing beside it. */
  readonly narrow?: boolean
}

/** The whole document: landmarks, one heading, the sandbox bar, and the way to other languages and colours. */
export const Document = ({ frame, title, children, narrow = false }: PageProps) => {
  const { t } = speak(frame)
  return (
    <html lang={frame.locale} data-theme={frame.theme}>
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={frame.theme === 'system' ? 'light dark' : frame.theme} />
        <meta name="robots" content="noindex" />
        <title>{`${title} – ${t.product}${frame.sandbox ? ' (Sandbox)' : ''}`}</title>
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/assets/app.css" />
      </head>
      <body>
        <a className="skip" href="#content">
          {t.skip}
        </a>
        <header>
          {frame.sandbox && <p className="sandbox">{t.sandbox}</p>}
          <div className="bar">
            <span className="mark">{t.product}</span>
            {!narrow && <Navigation frame={frame} />}
            {frame.person && !narrow && (
              <Form frame={frame} action="/logout" className="who">
                <span className="soft">{frame.person.email}</span>
                <button className="quiet">{t.signOut}</button>
              </Form>
            )}
          </div>
        </header>
        <main id="content" className={narrow ? 'narrow' : undefined} tabIndex={-1}>
          {children}
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
}: {
  frame: Frame
  action: string
  children: ReactNode
  className?: string
  label?: string
}) => (
  <form method="post" action={action} className={className} aria-label={label}>
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
}

/** One labelled input; its hint and its error are tied to it. */
export const Field = ({ name, label, value, type = 'text', hint, error, autoComplete = 'off', inputMode, autoFocus = false }: FieldProps) => {
  const described = [hint && `${name}-hint`, error && `${name}-error`].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label htmlFor={name}>{label}</label>
      {hint && (
        <p id={`${name}-hint`} className="soft">
          {hint}
        </p>
      )}
      <input
        id={name}
        name={name}
        type={type}
        defaultValue={value}
        autoComplete={autoComplete}
        inputMode={inputMode}
        autoCapitalize="none"
        spellCheck={false}
        required
        autoFocus={autoFocus}
        aria-describedby={described || undefined}
        aria-invalid={error ? true : undefined}
      />
      {error && (
        <p id={`${name}-error`} className="error">
          {error}
        </p>
      )}
    </div>
  )
}

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
