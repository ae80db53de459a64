import type { getWebhookEndpoint, WebhookDeliveryStatus } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { t } from '../../app/texts.ts'
import { Status, type Tone } from '../../kit/bits.tsx'

/** Whether an endpoint is on, and the reason if it is not. */
export const EndpointState = ({ endpoint: { enabled, failing_since, paused_reason } }: { endpoint: Received<typeof getWebhookEndpoint> }) => {
  const s = t.webhooks.state
  if (enabled) return failing_since === null ? <Status tone="good">{s.on}</Status> : <Status tone="bad">{s.failing}</Status>
  return paused_reason === 'by_hand' ? <Status tone="off">{s.by_hand}</Status> : <Status tone="bad">{paused_reason === 'gone' ? s.gone : s.off}</Status>
}

export type DeliveryStatus = (typeof WebhookDeliveryStatus.options)[number]
const tones: Readonly<Record<DeliveryStatus, Tone>> = { waiting: 'wait', retrying: 'bad', delivered: 'good', parked: 'bad', skipped: 'off' }

export const EventStatus = ({ status }: { status: DeliveryStatus }) => <Status tone={tones[status]}>{t.webhooks.statuses[status]}</Status>
