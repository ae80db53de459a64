import { getWebhookReplay, replayWebhookEndpoint } from '@bursar/contract'
import { useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Bar } from '../../kit/bits.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Labelled } from '../../kit/form.tsx'
import { number } from '../../kit/format.ts'
import { Failed } from '../../kit/states.tsx'

/** The local time one day ago, as a date field shows it. */
const yesterday = () => {
  const at = new Date(Date.now() - 86_400_000)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** Sends many events again. The count is known before, and the bar shows how many were handed to delivery. */
const Replay = ({ id, onClose }: { id: string; onClose: () => void }) => {
  const w = t.webhooks
  const [key] = useState(newKey)
  const [since, setSince] = useState(yesterday)
  const [include_delivered, setDelivered] = useState(false)
  const wish = { since: since === '' ? null : new Date(since).toISOString(), include_delivered }
  const count = useRead(replayWebhookEndpoint, { params: { id }, body: { ...wish, dry_run: true } }, { enabled: since !== '' })
  const start = useChange(replayWebhookEndpoint, ['webhooks'])
  const started = start.data
  const running = useRead(getWebhookReplay, { params: { id, replay_id: started?.id ?? '' } }, { enabled: started?.id != null, every: 1000 })
  const progress = running.data ?? started
  const total = count.data?.total ?? 0
  return (
    <Dialog title={w.replayTitle} onClose={onClose}>
      {progress ? (
        progress.status === 'done' ? (
          <p role="status">{w.replayDone(number(progress.total))}</p>
        ) : (
          <Bar done={progress.queued} of={progress.total} label={w.replayed(number(progress.queued), number(progress.total))} />
        )
      ) : (
        <>
          <Labelled label={w.since}>
            {(control) => <input {...control} type="datetime-local" value={since} onChange={({ target }) => setSince(target.value)} />}
          </Labelled>
          <label className="choice">
            <input type="checkbox" checked={include_delivered} onChange={({ target }) => setDelivered(target.checked)} />
            {w.includeDelivered}
          </label>
          {count.data && <p aria-live="polite">{w.replayCount(number(total))}</p>}
          {count.data && <p className="soft">{w.replayWaits}</p>}
          {(count.error ?? start.error) && <Failed error={(count.error ?? start.error)!} />}
        </>
      )}
      <div className="actions">
        <button type="button" onClick={onClose}>
          {progress ? t.close : t.cancel}
        </button>
        {!progress && (
          <button
            type="button"
            className="primary"
            disabled={total === 0 || count.isPlaceholder || start.isPending}
            aria-busy={start.isPending}
            onClick={() => start.mutate({ params: { id }, body: wish, headers: { 'idempotency-key': key } })}
          >
            {w.replayAct(number(total))}
          </button>
        )}
      </div>
    </Dialog>
  )
}
export default Replay
