import { randomText } from '../../../kernel/secrets.ts'
import { ProcessorRefusal, type Intent, type ProcessorDispute, type ProcessorRefund } from '../payments.ts'
import { declineOf, methodOf, readCard, type DeclineCode } from './cards.ts'
import { type DisputeRow, type IntentRow, type RefundRow } from './records.sql.ts'

export const presentIntent = ({ account, id, kind, status, amount, currency, client_secret, metadata, charged_at, ...row }: IntentRow): Intent => ({
  id,
  kind,
  status,
  amount,
  currency,
  client_secret,
  redirect_url: null,
  metadata,
  method: row.token === null || row.method_id === null ? null : methodOf(account, row.method_id, row.token, readCard(row.token)!),
  decline: row.decline_code === null ? null : declineOf(row.decline_code as DeclineCode),
  charged_at,
})

export const presentRefund = ({ id, intent_id, status, amount, currency, metadata }: RefundRow): ProcessorRefund => ({
  id,
  intent_id,
  status,
  amount,
  currency,
  metadata,
})

export const presentDispute = ({ id, intent_id, status, amount, currency, reason, respond_by }: DisputeRow, now: Date): ProcessorDispute => ({
  id,
  intent_id,
  status,
  amount,
  currency,
  reason,
  respond_by,
  past_due: respond_by !== null && respond_by <= now,
  given_back: status === 'prevented',
  asleep: false,
})

export const reviveDispute = (dispute: ProcessorDispute): ProcessorDispute => ({ ...dispute, respond_by: dispute.respond_by && new Date(dispute.respond_by) })

/** Restores the date of a stored response, which is a string in JSON. */
export const revive = (intent: Intent): Intent => ({ ...intent, charged_at: intent.charged_at && new Date(intent.charged_at) })

export const known = <T>(value: T | undefined, what: string): T => {
  if (value === undefined) throw new ProcessorRefusal(`${what}_unknown`, `There is no such ${what}.`)
  return value
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

export const newName = (kind: string): string => `test_${kind}_${randomText(24, letters)}`

/** Serializes a request independent of the order of its fields. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, part: unknown) =>
    part !== null && typeof part === 'object' && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
