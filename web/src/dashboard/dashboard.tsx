import { dashboardScreens, localeNames, locales, themes, type DashboardIsland, type DashboardView, type Frame } from '@bursar/views'
import { Document } from '../kit/document.tsx'
import { Form } from '../kit/form.tsx'
import { speak, textsIn } from '../kit/speak.ts'
import { clientOf } from './client.ts'
import { de } from './de.ts'
import { en } from './en.ts'
import { Icon } from './icons.tsx'

type Open = Extract<DashboardView, { kind: 'dashboard' }>

/** Escapes JSON for a script element. A text with `</script>` could otherwise end the element. */
const islandOf = ({ person, organization, organizations }: Open, { locale, sandbox, development, origin }: Frame): string => {
  const island: DashboardIsland = { person, organization, organizations, locale, sandbox, development, origin }
  return JSON.stringify(island).replaceAll('<', '\\u003c')
}

/** The frame of the dashboard: navigation, heading and the data of the page. The script renders the screen into `#app`. */
export const Dashboard = ({ view, frame }: { view: Open; frame: Frame }) => {
  const { t: shared } = speak(frame)
  const t = textsIn(frame, { en, de })
  const { organization, screen } = view
  const client = clientOf(screen, frame.locale)
  const title = t.screens[screen]
  return (
    <html lang={frame.locale} data-theme={frame.theme}>
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content={frame.theme === 'system' ? 'light dark' : frame.theme} />
        <meta name="robots" content="noindex" />
        <title>{`${title} – ${organization.name} – ${shared.product}${frame.sandbox ? ' (Sandbox)' : ''}`}</title>
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        {/* React Aria adds no style element of its own if an element with this id exists. The policy would refuse that element. */}
        <link id="react-aria-pressable-style" rel="stylesheet" href={client.style} />
        <link rel="preload" href="/assets/geist-latin.woff2" as="font" type="font/woff2" crossOrigin="anonymous" />
        {client.preload.map((file) => (
          <link key={file} rel="modulepreload" href={file} />
        ))}
        <script type="module" src={client.script} />
      </head>
      <body>
        <a className="skip" href="#content">
          {shared.skip}
        </a>
        {frame.sandbox && (
          <header className="sandbox">
            <p>{shared.sandbox}</p>
          </header>
        )}
        <div className="shell">
          <aside className="side" aria-label={t.side}>
            <Switch view={view} label={t.organizations} />
            <button type="button" className="jump" id="open-palette" hidden>
              <span>{t.search}</span>
              <kbd>⌘K</kbd>
            </button>
            <nav aria-label={t.navigation} id="screens">
              {dashboardScreens
                .filter(({ permission }) => permission === null || organization.permissions.includes(permission))
                .map(({ name, path, jump }) => (
                  <a
                    key={name}
                    href={`/dashboard/${organization.slug}${path === '' ? '' : `/${path}`}`}
                    aria-current={name === screen ? 'page' : undefined}
                    data-jump={jump}
                  >
                    <Icon name={name} />
                    {t.screens[name]}
                  </a>
                ))}
            </nav>
            <Person frame={frame} account={t.account} you={t.you} />
          </aside>
          <main id="content" tabIndex={-1}>
            <div id="app">
              <div className="head">
                <h1>{title}</h1>
              </div>
              <noscript>
                <p>{t.needsScript}</p>
              </noscript>
            </div>
          </main>
        </div>
        <script id="island" type="application/json" dangerouslySetInnerHTML={{ __html: islandOf(view, frame) }} />
      </body>
    </html>
  )
}

/** The organization, and links to the others of the same person. */
const Switch = ({ view: { organization, organizations }, label }: { view: Open; label: string }) => {
  const badge = (
    <span className="badge" aria-hidden="true">
      {organization.name.slice(0, 1).toUpperCase()}
    </span>
  )
  if (organizations.length < 2)
    return (
      <p className="organization">
        {badge}
        <span>{organization.name}</span>
      </p>
    )
  return (
    <details className="organization menu">
      <summary>
        {badge}
        <span>{organization.name}</span>
        <span className="hidden">. {label}</span>
      </summary>
      <ul>
        {organizations.map(({ id, name, slug }) => (
          <li key={id}>
            <a href={`/dashboard/${slug}`} aria-current={id === organization.id ? 'true' : undefined}>
              {name}
            </a>
          </li>
        ))}
      </ul>
    </details>
  )
}

/** The signed-in person, with language, colours and sign-out. */
const Person = ({ frame, account, you }: { frame: Frame; account: string; you: string }) => {
  const { t } = speak(frame)
  return (
    <details className="person menu">
      <summary>
        <span className="hidden">{you}: </span>
        <span>{frame.person?.email}</span>
      </summary>
      <div>
        <a href="/settings/apps">{account}</a>
        <Form frame={frame} action="/preferences" label={t.preferences}>
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
          <button>{t.apply}</button>
        </Form>
        <Form frame={frame} action="/logout">
          <button>{t.signOut}</button>
        </Form>
      </div>
    </details>
  )
}

/** Says why the person cannot use the dashboard, and what to do. */
export const DashboardClosed = ({ view, frame }: { view: Extract<DashboardView, { kind: 'dashboard-closed' }>; frame: Frame }) => {
  const t = textsIn(frame, { en, de }).closed[view.reason]
  return (
    <Document frame={frame} title={t.title} narrow>
      <div className="card">
        <h1>{t.title}</h1>
        <p>{t.text}</p>
        <a href={t.href}>{t.link}</a>
      </div>
    </Document>
  )
}
