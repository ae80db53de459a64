import { listWebhookDeliveries, listWebhookEndpoints, redeliverWebhookEvent } from '@bursar/contract'
import { useParams } from '@tanstack/react-router'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { t } from '../../app/texts.ts'
import { Code, Id, Json, Status, Time } from '../../kit/bits.tsx'
import { milliseconds } from '../../kit/format.ts'
import { Detail, Facts, Head, Panel } from '../../kit/layout.tsx'
import { Empty, Loaded } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

const parsed = (payload: string): unknown => {
  try {
    return JSON.parse(payload) as unknown
  } catch {
    return payload
  }
}

/** One event: its payload, and each attempt to deliver it with the answer. */
export const EventScreen = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = { event_id: [id], limit: 100 }
  const read = useRead(listWebhookDeliveries, { query })
  const endpoints = useRead(listWebhookEndpoints, { query: { limit: 100 } })
  useAsCode(listWebhookDeliveries, { query })
  const again = useChange(redeliverWebhookEvent, ['webhooks'])
  const w = t.webhooks
  const type = read.data?.items[0]?.webhook_event.type
  const nameOf = (endpoint_id: string) => {
    const found = endpoints.data?.items.find((one) => one.id === endpoint_id)
    return found?.name ?? found?.url ?? endpoint_id
  }
  return (
    <>
      <Head title={type === undefined ? w.event : w.eventTitle(type)} crumb={{ to: '/webhooks', name: w.title }}>
        <button
          type="button"
          className="primary"
          aria-busy={again.isPending}
          onClick={() => again.mutate({ params: { id }, headers: { 'idempotency-key': newKey() } }, { onSuccess: () => toast(w.replayOne) })}
        >
          {w.replay}
        </button>
      </Head>
      <Loaded read={read}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty text={w.noDeliveries} />
          ) : (
            <Detail
              aside={
                <Facts
                  list={[
                    [w.recorded, <Time key="t" at={items[0]!.webhook_event.created_at} />],
                    [w.id, <Id key="i" value={id} />],
                    [
                      w.signature,
                      <span key="s" className="soft">
                        {w.signatureAbout}
                      </span>,
                    ],
                  ]}
                />
              }
            >
              <Panel title={w.deliveries}>
                <ul className="rows">
                  {items.map((delivery) => (
                    <li key={delivery.id}>
                      <span>{nameOf(delivery.endpoint_id)}</span>
                      <Status tone={delivery.succeeded ? 'good' : 'bad'}>{delivery.http_code ?? t.states.unreachableShort}</Status>
                      <span className="soft">{milliseconds(delivery.duration_ms)}</span>
                      <Time at={delivery.created_at} />
                      {delivery.response !== null && delivery.response !== '' && (
                        <details className="whole">
                          <summary>{w.answer}</summary>
                          <Code text={delivery.response} label={w.answer} />
                        </details>
                      )}
                    </li>
                  ))}
                </ul>
              </Panel>
              <Panel title={w.payload}>
                {items[0]!.webhook_event.payload === null ? (
                  <p className="soft">{w.archived}</p>
                ) : (
                  <Json value={parsed(items[0]!.webhook_event.payload)} label={w.payload} />
                )}
              </Panel>
            </Detail>
          )
        }
      </Loaded>
    </>
  )
}
