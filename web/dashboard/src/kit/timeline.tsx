import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { t } from '../app/texts.ts'
import { Time, type Tone } from './bits.tsx'
import { day } from './format.ts'

export interface Moment {
  readonly id: string
  readonly at: string
  readonly title: ReactNode
  readonly detail?: ReactNode
  readonly tone?: Tone
  readonly to?: string
}

/** The history of a record, newest first, with one heading for each day. */
export const Timeline = ({ moments }: { moments: readonly Moment[] }) => {
  const sorted = moments.toSorted((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0))
  const groups = Map.groupBy(sorted, ({ at }) => day(at))
  return (
    <div className="timeline">
      {[...groups].map(([date, list]) => (
        <section key={date} aria-label={date}>
          <h3>{date}</h3>
          <ol>
            {list.map(({ id, at, title, detail, tone = 'off', to }) => (
              <li key={id} className={tone}>
                <div>
                  {to === undefined ? <span>{title}</span> : <Link to={to as '/'}>{title}</Link>}
                  {detail && <div className="soft">{detail}</div>}
                </div>
                <Time at={at} />
              </li>
            ))}
          </ol>
        </section>
      ))}
      {moments.length === 0 && <p className="soft">{t.nothingHappened}</p>}
    </div>
  )
}
