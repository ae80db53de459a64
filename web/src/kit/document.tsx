import { localeNames, locales, themes, type Frame } from '@bursar/views'
import type { ReactNode } from 'react'
import { Form } from './form.tsx'
import { speak } from './speak.ts'

export interface PageProps {
  readonly frame: Frame
  readonly title: string
  readonly children: ReactNode
  /** True for a page with a single task and no side content. */
  readonly narrow?: boolean
  /** The seller's name, if the page belongs to a seller. */
  readonly seller?: string
  /** Content of the header beside the name, instead of the account navigation. */
  readonly beside?: ReactNode
  /** True if the page includes the script `app.js`. */
  readonly script?: boolean
  /** Additional scripts. */
  readonly scripts?: readonly string[]
  /** Seconds until the page reloads. Null if no work is in progress. */
  readonly refresh?: number | null
}

/** The whole document: landmarks, one heading, the sandbox bar, and the choice of language and theme. */
export const Document = ({ frame, title, children, narrow = false, seller, beside, script = false, scripts = [], refresh }: PageProps) => {
  const { t } = speak(frame)
  // With our script the page updates itself without a reload, so that the reader keeps the scroll position and input.
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
