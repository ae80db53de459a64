import { listSubscriptions } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { useRead } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Money, Status, Time } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'
import { Loaded } from '../../kit/states.tsx'
import { toneOf } from '../../kit/words.ts'

type Row = Received<typeof listSubscriptions>['items'][number]

/** The next date of a subscription, or the date at which it ended. Only a subscription that will be charged renews. */
const NextDate = ({ row: { status, cancel_at_period_end, pause_at_period_end, current_period_end, ends_at, ended_at, resumes_at } }: { row: Row }) => {
  const c = t.customers
  const [name, at] =
    ended_at !== null
      ? [c.ended, ended_at]
      : cancel_at_period_end || ends_at !== null
        ? [c.ends, ends_at ?? current_period_end]
        : status === 'paused'
          ? [c.resumes, resumes_at]
          : pause_at_period_end
            ? [c.pauses, current_period_end]
            : status === 'trialing'
              ? [c.trialEnds, current_period_end]
              : status === 'active'
                ? [c.renews, current_period_end]
                : ['', null]
  return at === null ? null : (
    <span className="soft">
      {name} <Time at={at} />
    </span>
  )
}

/** The subscriptions of a customer, with seats and the next date. */
export const Subscriptions = ({ id }: { id: string }) => {
  const read = useRead(listSubscriptions, { query: { customer_id: [id], limit: 50 } })
  return (
    <Panel title={t.customers.subscriptions}>
      <Loaded read={read} lines={2}>
        {({ items }) =>
          items.length === 0 ? (
            <p className="soft">{t.customers.noSubscriptions}</p>
          ) : (
            <ul className="rows">
              {items.map((row) => (
                <li key={row.id}>
                  <span>
                    {row.product.name}
                    {row.seats !== null && <span className="soft"> · {t.customers.seats(row.seats)}</span>}
                  </span>
                  <Status tone={toneOf(row.status)}>{t.customers.statuses[row.status]}</Status>
                  <NextDate row={row} />
                  <span>
                    <Money amount={row.amount} currency={row.currency} />{' '}
                    <span className="soft">{t.customers.intervals[row.recurring_interval](row.recurring_interval_count)}</span>
                  </span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Panel>
  )
}
