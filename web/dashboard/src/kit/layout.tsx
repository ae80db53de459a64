import { Link } from '@tanstack/react-router'
import { useEffect, type ReactNode } from 'react'
import { island } from '../app/island.ts'
import type { Search } from '../app/search.ts'
import { t } from '../app/texts.ts'

export interface Crumb {
  readonly to: string
  readonly name: string
  /** The query of the address, if the way back keeps what the reader has chosen. */
  readonly search?: Search
}

/** The heading of a screen, with the way back and the actions. It also names the tab of the browser. */
export const Head = ({ title, crumb, status, children }: { title: string; crumb?: Crumb; status?: ReactNode; children?: ReactNode }) => {
  useEffect(() => {
    document.title = `${title} – ${island.organization.name} – Bursar${island.sandbox ? ' (Sandbox)' : ''}`
  }, [title])
  return (
    <div className="head">
      <div>
        {crumb && (
          <nav aria-label={t.crumbs} className="crumbs">
            <Link to={crumb.to as '/'} search={(crumb.search ?? {}) as never}>
              {crumb.name}
            </Link>
          </nav>
        )}
        <div className="title">
          <h1>{title}</h1>
          {status}
        </div>
      </div>
      {children && <div className="actions">{children}</div>}
    </div>
  )
}

/** One part of a screen, with a heading and optional actions. */
export const Panel = ({ title, actions, children, flush = false }: { title: string; actions?: ReactNode; children: ReactNode; flush?: boolean }) => (
  <section className={flush ? 'panel flush' : 'panel'}>
    <div className="panel-head">
      <h2>{title}</h2>
      {actions && <div className="actions">{actions}</div>}
    </div>
    {children}
  </section>
)

/** Names and values. Entries without a value are left out. */
export const Facts = ({ list }: { list: readonly (readonly [string, ReactNode])[] }) => (
  <dl className="facts">
    {list
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)

/** The layout of one record: the main column, and facts beside it. */
export const Detail = ({ aside, children }: { aside: ReactNode; children: ReactNode }) => (
  <div className="detail">
    <div>{children}</div>
    <aside aria-label={t.facts}>{aside}</aside>
  </div>
)

export interface Tab {
  readonly name: string
  readonly label: string
}

/** Links between the parts of a record. The address names the part, so that a reload shows it again. */
export const Tabs = ({ tabs, current, label }: { tabs: readonly Tab[]; current: string; label: string }) => (
  <nav className="tabs" aria-label={label}>
    {tabs.map(({ name, label: text }, at) => (
      <Link
        key={name}
        to="."
        search={(at === 0 ? {} : { tab: name }) as never}
        aria-current={name === current ? 'page' : undefined}
        replace
        resetScroll={false}
        activeProps={{}}
        activeOptions={{ exact: true, includeSearch: true }}
      >
        {text}
      </Link>
    ))}
  </nav>
)
