import { replayWebhookEndpoint, WebhookDeliveryStatus, type getWebhookEndpointHealth } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { Link } from '@tanstack/react-router'
import { RotateCw } from 'lucide-react'
import { newKey, useChange } from '../../app/api.ts'
import { one, useSearch, useSetSearch } from '../../app/search.ts'
import { t } from '../../app/texts.ts'
import { Time } from '../../kit/bits.tsx'
import { Panel } from '../../kit/layout.tsx'
import { toast } from '../../kit/toast.tsx'
import { EventStatus } from './state.tsx'

/** The events of an endpoint with the state of their delivery, newest first. */
export const EventList = ({ endpoint_id, health, isBusy }: { endpoint_id: string; health: Received<typeof getWebhookEndpointHealth>; isBusy: boolean }) => {
  const w = t.webhooks
  const search = useSearch()
  const setSearch = useSetSearch()
  const replay = useChange(replayWebhookEndpoint, ['webhooks'])
  const status = one(search.status)
  return (
    <Panel
      title={w.events}
      flush
      actions={
        <select aria-label={w.status} value={status ?? ''} onChange={({ target }) => setSearch({ status: target.value || undefined, before: undefined })}>
          <option value="">{w.anyStatus}</option>
          {WebhookDeliveryStatus.options.map((name) => (
            <option key={name} value={name}>
              {w.statuses[name]}
            </option>
          ))}
        </select>
      }
    >
      {health.events.length === 0 ? (
        <p className="soft pad">{status === undefined ? w.noEventsYet : w.noEvents}</p>
      ) : (
        <div className="scroll" aria-busy={isBusy} tabIndex={0} role="group" aria-label={w.events}>
          <table>
            <thead>
              <tr>
                <th scope="col">{w.event}</th>
                <th scope="col">{w.status}</th>
                <th scope="col" className="amount less">
                  {w.tries}
                </th>
                <th scope="col" className="less">
                  {w.lastCode}
                </th>
                <th scope="col" className="less">
                  {w.recorded}
                </th>
                <th scope="col">
                  <span className="hidden">{w.replay}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {health.events.map((event) => (
                <tr key={event.event_id}>
                  <th scope="row">
                    <Link to={`/webhooks/events/${event.event_id}` as '/'}>
                      <code>{event.type}</code>
                    </Link>
                  </th>
                  <td>
                    <EventStatus status={event.status} />
                    {event.next_attempt_at && (
                      <div className="soft">
                        {w.next} <Time at={event.next_attempt_at} />
                      </div>
                    )}
                  </td>
                  <td className="amount less">{event.attempts}</td>
                  <td className="less">{event.last_http_code ?? (event.attempts > 0 ? t.states.unreachableShort : null)}</td>
                  <td className="less">
                    <Time at={event.recorded_at} />
                  </td>
                  <td>
                    <button
                      type="button"
                      className="icon"
                      aria-label={w.replay}
                      title={w.replay}
                      onClick={() =>
                        replay.mutate(
                          {
                            params: { id: endpoint_id },
                            body: { event_id: event.event_id, include_delivered: true },
                            headers: { 'idempotency-key': newKey() },
                          },
                          { onSuccess: () => toast(w.replayOne) },
                        )
                      }
                    >
                      <RotateCw size={14} aria-hidden />
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {(one(search.before) !== undefined || health.next_before !== null) && (
        <div className="pages pad">
          <div className="actions">
            <button type="button" disabled={one(search.before) === undefined} onClick={() => setSearch({ before: undefined })}>
              {w.newest}
            </button>
            <button type="button" disabled={health.next_before === null} onClick={() => setSearch({ before: String(health.next_before) })}>
              {w.older}
            </button>
          </div>
        </div>
      )}
    </Panel>
  )
}
