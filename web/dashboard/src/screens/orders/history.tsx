import { getOrderTimeline } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { useInfiniteQuery } from '@tanstack/react-query'
import { api } from '../../app/api.ts'
import { may } from '../../app/island.ts'
import { one, useSearch, useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Money, Status } from '../../kit/bits.tsx'
import { milliseconds } from '../../kit/format.ts'
import { Failed, Skeleton } from '../../kit/states.tsx'
import { Timeline, type Moment } from '../../kit/timeline.tsx'

type Entry = Received<typeof getOrderTimeline>['items'][number]
type Entries = Extract<Entry, { kind: 'posting' }>['entries']

/** The debits and credits of one posting. They sum to zero, and the last line proves it. */
export const Postings = ({ entries, currency }: { entries: Entries; currency: string }) => {
  const sum = entries.reduce((all, { amount }) => all + amount, 0)
  return (
    <table className="postings">
      <tbody>
        {entries.map(({ account, amount }, at) => (
          // oxlint-disable-next-line react/no-array-index-key -- an account may occur twice, and the list never changes
          <tr key={at}>
            <th scope="row">{t.sale.timeline.accounts[account]}</th>
            <td className="amount">
              <Money amount={amount} currency={currency} plain />
            </td>
          </tr>
        ))}
        <tr className="sum">
          <th scope="row">{sum === 0 ? t.sale.timeline.zero : t.sale.timeline.notZero}</th>
          <td className="amount">
            <Money amount={sum} currency={currency} />
          </td>
        </tr>
      </tbody>
    </table>
  )
}

/** The kinds of entries that move money, or that try to. */
const moneyKinds: readonly Entry['kind'][] = ['payment_attempt', 'posting', 'refund', 'dispute']

const momentOf = (entry: Entry): Moment => {
  const { id, at } = entry
  const x = t.sale.timeline
  switch (entry.kind) {
    case 'payment_attempt':
      return {
        id,
        at,
        title: x.attempt[entry.status],
        tone: entry.status === 'succeeded' ? 'good' : entry.status === 'failed' ? 'bad' : 'wait',
        detail: (
          <>
            <Money amount={entry.amount} currency={entry.currency} /> · {x.methods[entry.method] ?? entry.method}
            {entry.decline_reason !== null && <> · {x.declines[entry.decline_reason] ?? entry.decline_reason}</>}
          </>
        ),
      }
    case 'posting':
      return {
        id,
        at,
        title: x.posting[entry.fact],
        detail: (
          <details>
            <summary>
              <Money amount={entry.entries.reduce((sum, { amount }) => sum + Math.max(0, amount), 0)} currency={entry.currency} />
            </summary>
            <Postings entries={entry.entries} currency={entry.currency} />
          </details>
        ),
      }
    case 'refund':
      return {
        id,
        at,
        title: x.refund[entry.status],
        tone: entry.status === 'failed' ? 'bad' : entry.status === 'succeeded' ? 'good' : 'wait',
        detail: <Money amount={entry.amount + entry.tax_amount} currency={entry.currency} />,
      }
    case 'dispute':
      return { id, at, title: x.dispute, tone: 'bad', detail: <Money amount={entry.amount + entry.tax_amount} currency={entry.currency} /> }
    case 'event':
      return { id, at, title: x.event(entry.type), ...(may('organization:manage') ? { to: `/webhooks/events/${entry.event_id}` } : {}) }
    case 'delivery':
      return {
        id,
        at,
        title: entry.succeeded ? x.delivered(entry.type) : x.undelivered(entry.type),
        tone: entry.succeeded ? 'good' : 'bad',
        detail: x.answered(entry.http_code === null ? x.noAnswer : String(entry.http_code), milliseconds(entry.duration_ms)),
        ...(may('organization:manage') ? { to: `/webhooks/events/${entry.event_id}` } : {}),
      }
    case 'mail':
      return { id, at, title: x.mail(x.mails[entry.mail] ?? entry.mail), tone: entry.report === 'permanent' ? 'bad' : 'good', detail: entry.address }
    case 'grant':
      return {
        id,
        at,
        title: x.grant[entry.state],
        tone: entry.state === 'granted' ? 'good' : entry.state === 'failed' ? 'bad' : 'off',
        detail: entry.benefit_description,
      }
    case 'audit':
      return {
        id,
        at,
        title: x.acts[entry.operation] ?? x.audit(entry.operation),
        detail: [x.actors[entry.actor.kind], ...(entry.changed.length > 0 ? [x.changed(entry.changed.join(', '))] : [])].join(' · '),
      }
  }
}

/** Everything that happened to an order on one line of time: payments, postings, events, deliveries, mails, grants and changes. */
export const History = ({ id }: { id: string }) => {
  const isMoneyOnly = one(useSearch().show) === 'money'
  const setSearch = useSetSearch()
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: [getOrderTimeline.id, id],
    queryFn: ({ pageParam }) => api.call(getOrderTimeline, { params: { id }, query: { limit: 100, ...(pageParam === null ? {} : { cursor: pageParam }) } }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next_cursor }) => next_cursor,
  })
  if (data === undefined) return error ? <Failed error={error} again={() => void refetch()} /> : <Skeleton />
  const entries = data.pages.flatMap(({ items }) => items).filter(({ kind }) => !isMoneyOnly || moneyKinds.includes(kind))
  const hidden = data.pages[0]!.left_out
  return (
    <>
      <div className="views" role="group" aria-label={t.sale.timeline.shown}>
        {[false, true].map((only) => (
          <button
            key={String(only)}
            type="button"
            className="quiet"
            aria-pressed={only === isMoneyOnly}
            onClick={() => setSearch({ show: only ? 'money' : undefined }, { replace: true })}
          >
            {only ? t.sale.timeline.money : t.sale.timeline.all}
          </button>
        ))}
      </div>
      {hasNextPage && (
        <button type="button" aria-busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {t.sale.timeline.more}
        </button>
      )}
      <Timeline moments={entries.map((entry) => ({ ...momentOf(entry), id: `${entry.kind} ${entry.id}` }))} />
      {hidden.length > 0 && (
        <p className="soft">
          <Status tone="off">{t.sale.timeline.hidden(hidden.map((kind) => t.sale.timeline.kinds[kind]).join(', '))}</Status>
        </p>
      )}
    </>
  )
}
