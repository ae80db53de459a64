import {
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  getWebhookEndpointHealth,
  resetWebhookSecret,
  revealWebhookSecret,
  updateWebhookEndpoint,
} from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { useNavigate, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { refresh, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { one, useSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Code, Id, Time } from '../../kit/bits.tsx'
import { Confirm, Dialog } from '../../kit/dialog.tsx'
import { milliseconds, number, percent } from '../../kit/format.ts'
import { Detail, Facts, Head, Panel } from '../../kit/layout.tsx'
import { Failed, Skeleton } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'
import { EventList } from './event-list.tsx'
import { EndpointState, type DeliveryStatus } from './state.tsx'

const Trial = lazy(() => import('./trial.tsx'))
const Replay = lazy(() => import('./replay.tsx'))
const Chart = lazy(() => import('../../kit/chart.tsx').then((module) => ({ default: module.Chart })))
/** How often the attempts are read again, in milliseconds. */
const every = 5000
const names = new Intl.DateTimeFormat(document.documentElement.lang, { day: 'numeric', month: 'short', timeZone: 'UTC' })

export const EndpointScreen = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const search = useSearch()
  const before = one(search.before)
  const query = { limit: 25, status: one(search.status) as DeliveryStatus | undefined, ...(before === undefined ? {} : { before: Number(before) }) }
  // Attempts cause no hints.
  const read = useRead(getWebhookEndpoint, { params: { id } }, { every })
  const health = useRead(getWebhookEndpointHealth, { params: { id }, query }, { every })
  useAsCode(getWebhookEndpointHealth, { params: { id }, query })
  const w = t.webhooks
  const crumb = { to: '/webhooks', name: w.title }
  const endpoint = read.data
  if (endpoint === undefined)
    return (
      <>
        <Head title={w.title} crumb={crumb} />
        {read.error ? <Failed error={read.error} again={read.again} /> : <Skeleton lines={8} />}
      </>
    )
  const found = health.data
  return (
    <>
      <Head title={endpoint.name ?? new URL(endpoint.url).host} crumb={crumb} status={<EndpointState endpoint={endpoint} />}>
        <Acts endpoint={endpoint} undelivered={found?.undelivered ?? 0} />
      </Head>
      <Detail aside={<EndpointFacts endpoint={endpoint} />}>
        {found === undefined ? (
          health.error ? (
            <Failed error={health.error} again={health.again} />
          ) : (
            <Skeleton lines={8} />
          )
        ) : (
          <>
            <div className="figures">
              <Figure name={w.success} value={found.attempts.success_rate === null ? '–' : percent(found.attempts.success_rate)} />
              <Figure name={w.latency} value={found.attempts.latency_p95_ms === null ? '–' : milliseconds(found.attempts.latency_p95_ms)} />
              <Figure name={w.undelivered} value={number(found.undelivered)} />
            </div>
            <Panel title={w.health}>
              <Suspense fallback={<Skeleton lines={3} />}>
                <Chart
                  title={w.attempts}
                  valueName={w.attempts}
                  badName={w.failed}
                  points={found.days.map(({ day, total, succeeded }) => ({ label: names.format(new Date(day)), value: total, bad: total - succeeded }))}
                />
              </Suspense>
            </Panel>
            <EventList endpoint_id={id} health={found} isBusy={health.isPlaceholder} />
          </>
        )}
      </Detail>
    </>
  )
}

const Figure = ({ name, value }: { name: string; value: string }) => (
  <div className="figure">
    <p>{name}</p>
    <strong>{value}</strong>
  </div>
)

type Endpoint = Received<typeof getWebhookEndpoint>

const EndpointFacts = ({ endpoint: { url, events, format, created_at, previous_secret_until, id } }: { endpoint: Endpoint }) => (
  <Facts
    list={[
      [t.webhooks.url, url],
      [
        t.webhooks.kinds,
        events.length === 0 ? (
          t.webhooks.none
        ) : (
          <details key="e">
            <summary>{number(events.length)}</summary>
            <span className="soft">{events.join(', ')}</span>
          </details>
        ),
      ],
      [t.webhooks.fields.format, t.webhooks.formats[format]],
      [t.webhooks.previousUntil, previous_secret_until && <Time at={previous_secret_until} />],
      [t.webhooks.columns.created, <Time key="t" at={created_at} />],
      [t.webhooks.id, <Id key="i" value={id} />],
    ]}
  />
)

type Open = 'rotate' | 'remove' | 'replay' | 'trial' | null

const Acts = ({ endpoint: { id, enabled }, undelivered }: { endpoint: Endpoint; undelivered: number }) => {
  const w = t.webhooks
  const [open, setOpen] = useState<Open>(null)
  const navigate = useNavigate()
  const reveal = useChange(revealWebhookSecret, [])
  const rotate = useChange(resetWebhookSecret, ['webhooks'])
  const remove = useChange(deleteWebhookEndpoint, [])
  const update = useChange(updateWebhookEndpoint, ['webhooks'])
  const secret = rotate.data?.secret ?? reveal.data?.secret
  const flip = (to: boolean) =>
    update.mutate(
      { params: { id }, body: { enabled: to } },
      { onSuccess: () => toast(to ? w.enabled : w.paused, () => update.mutate({ params: { id }, body: { enabled: !to } })) },
    )
  const close = () => setOpen(null)
  return (
    <>
      <button type="button" onClick={() => reveal.mutate({ params: { id } })}>
        {w.show}
      </button>
      <button type="button" onClick={() => setOpen('trial')}>
        {w.trial}
      </button>
      <button type="button" onClick={() => setOpen('rotate')}>
        {w.rotate}
      </button>
      <button type="button" aria-busy={update.isPending} onClick={() => flip(!enabled)}>
        {enabled ? w.pause : w.enable}
      </button>
      <button type="button" className="danger" onClick={() => setOpen('remove')}>
        {w.remove}
      </button>
      <button type="button" className="primary" onClick={() => setOpen('replay')}>
        {w.replayAll}
      </button>
      {secret !== undefined && (
        <Dialog
          title={w.secretTitle}
          onClose={() => {
            reveal.reset()
            rotate.reset()
          }}
        >
          <p>{w.secretAbout}</p>
          <Code text={secret} label={w.secretTitle} />
        </Dialog>
      )}
      {open === 'rotate' && (
        <Confirm
          title={w.rotate}
          act={w.rotate}
          busy={rotate.isPending}
          danger={false}
          error={rotate.error && <Failed error={rotate.error} />}
          onClose={close}
          onAct={() => rotate.mutate({ params: { id } }, { onSuccess: close })}
        >
          <p>{w.rotateAbout}</p>
        </Confirm>
      )}
      {open === 'remove' && (
        <Confirm
          title={w.remove}
          act={w.remove}
          busy={remove.isPending}
          error={remove.error && <Failed error={remove.error} />}
          onClose={close}
          onAct={() =>
            remove.mutate(
              { params: { id } },
              {
                onSuccess: () => {
                  toast(w.removed)
                  // This screen would read the deleted endpoint again.
                  void navigate({ to: '/webhooks' }).then(() => refresh('webhooks'))
                },
              },
            )
          }
        >
          <p>{w.removeAbout(number(undelivered))}</p>
        </Confirm>
      )}
      {open === 'trial' && (
        <Suspense fallback={null}>
          <Trial id={id} enabled={enabled} onClose={close} />
        </Suspense>
      )}
      {open === 'replay' && (
        <Suspense fallback={null}>
          <Replay id={id} onClose={close} />
        </Suspense>
      )}
    </>
  )
}
