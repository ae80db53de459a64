import { getWebhookEndpointHealth, listWebhookDeliveries, replayWebhookEndpoint } from '@bursar/contract'
import { useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Code, Status, Time } from '../../kit/bits.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { milliseconds } from '../../kit/format.ts'
import { Failed, Loaded } from '../../kit/states.tsx'

/** Sends the newest event to an endpoint as a test, and shows the answer as soon as it has arrived. */
const Trial = ({ id, enabled, onClose }: { id: string; enabled: boolean; onClose: () => void }) => {
  const w = t.webhooks
  const [key] = useState(newKey)
  const [before, setBefore] = useState<string | null | undefined>()
  const health = useRead(getWebhookEndpointHealth, { params: { id }, query: { limit: 1 } })
  const event = health.data?.events[0]
  const query = { endpoint_id: [id], event_id: [event?.event_id ?? ''], limit: 1 }
  const attempts = useRead(listWebhookDeliveries, { query }, { enabled: event !== undefined, ...(before === undefined ? {} : { every: 1000 }) })
  const send = useChange(replayWebhookEndpoint, ['webhooks'])
  const newest = attempts.data?.items[0]
  const answer = before !== undefined && newest !== undefined && newest.id !== before ? newest : undefined
  const run = (event_id: string) => {
    setBefore(newest?.id ?? null)
    send.mutate({ params: { id }, body: { event_id, include_delivered: true }, headers: { 'idempotency-key': key } })
  }
  return (
    <Dialog title={w.trial} onClose={onClose}>
      <Loaded read={health} lines={2}>
        {() =>
          event === undefined ? (
            <p>{w.trialNothing}</p>
          ) : (
            <>
              <p>
                {w.trialAbout} <code>{event.type}</code> (<Time at={event.recorded_at} />)
              </p>
              {!enabled && <p className="soft">{w.trialPaused}</p>}
              <div role="status">
                {before !== undefined && answer === undefined && <p>{w.trialWaits}</p>}
                {answer !== undefined && (
                  <>
                    <p>
                      <Status tone={answer.succeeded ? 'good' : 'bad'}>{answer.http_code ?? t.states.unreachableShort}</Status>{' '}
                      {milliseconds(answer.duration_ms)}
                    </p>
                    <p>{answer.succeeded ? w.trialGood : w.trialBad}</p>
                  </>
                )}
              </div>
              {answer?.response && <Code text={answer.response} label={w.answer} />}
              {send.error && <Failed error={send.error} />}
            </>
          )
        }
      </Loaded>
      <div className="actions">
        <button type="button" onClick={onClose}>
          {t.close}
        </button>
        {event !== undefined && answer === undefined && (
          <button
            type="button"
            className="primary"
            disabled={!enabled || attempts.data === undefined || before !== undefined}
            aria-busy={before !== undefined}
            onClick={() => run(event.event_id)}
          >
            {w.trialAct}
          </button>
        )}
      </div>
    </Dialog>
  )
}
export default Trial
