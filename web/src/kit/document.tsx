import { localeNames, locales, themes, type Frame } from '@bursar/views'
import type { ReactNode } from 'react'
import { AccentStyle, Mark, OpenGraph, SellerLinks, type Preview } from './brand.tsx'
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
  /** The preview that messengers show for a link to this page. */
  readonly preview?: Preview | undefined
  /** A form of the page whose input is kept when the reader changes language or theme: its id, and the address that keeps it. */
  readonly keeping?: { readonly form: string; readonly action: string }
}

/** The whole document: landmarks, one heading, the sandbox bar, and the choice of language and theme. */
export const Document = ({ frame, title, children, narrow = false, seller, beside, script = false, scripts = [], refresh, preview, keeping }: PageProps) => {
  const { t } = speak(frame)
  const { brand } = frame
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
        {preview && <OpenGraph frame={frame} title={title} preview={preview} />}
        <link rel="icon" href={brand?.logo?.path ?? '/favicon.svg'} type={brand?.logo?.content_type ?? 'image/svg+xml'} />
        <link rel="preload" href="/assets/geist-latin.woff2" as="font" type="font/woff2" crossOrigin="anonymous" />
        <link rel="stylesheet" href="/assets/app.css" />
        <AccentStyle brand={brand} />
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
            <Mark name={seller ?? t.product} brand={brand} />
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
          <SellerLinks frame={frame} />
          {keeping ? (
            <div className="preferences" role="group" aria-label={t.preferences}>
              <Preferences frame={frame} {...keeping} />
            </div>
          ) : (
            <Form frame={frame} action="/preferences" className="preferences" label={t.preferences}>
              <input type="hidden" name="return_to" value={frame.path} />
              <Preferences frame={frame} />
            </Form>
          )}
        </footer>
      </body>
    </html>
  )
}

/** The choice of language and theme. With `form` it belongs to that form, and sends the input of the form too. */
const Preferences = ({ frame, form, action }: { frame: Frame; form?: string; action?: string }) => {
  const { t } = speak(frame)
  return (
    <>
      <label>
        <span className="hidden">{t.language}</span>
        <select name="locale" form={form} defaultValue={frame.locale}>
          {locales.map((locale) => (
            <option key={locale} value={locale} lang={locale}>
              {localeNames[locale]}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span className="hidden">{t.theme}</span>
        <select name="theme" form={form} defaultValue={frame.theme}>
          {themes.map((theme) => (
            <option key={theme} value={theme}>
              {t.themes[theme]}
            </option>
          ))}
        </select>
      </label>
      <button className="quiet" form={form} formAction={action} formNoValidate={form !== undefined} data-whole={form === undefined ? undefined : ''}>
        {t.apply}
      </button>
    </>
  )
}

const Navigation = ({ frame }: { frame: Frame }) => {
  const { t } = speak(frame)
  const places = [
    ...(frame.person
      ? ([
          ['/dashboard', t.nav.dashboard],
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
