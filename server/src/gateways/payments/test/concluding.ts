import { later } from '../../../platform/clock.ts'
import { type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { type ProcessorEventKind } from '../payments.ts'
import { lateBy, readCard, respondWithin, settlesAfter, type Card, type Verdict } from './cards.ts'
import {
  findIntent,
  insertCallbacks,
  insertCharge,
  insertDispute,
  keepMethod,
  lockDispute,
  lockIntent,
  settleRefund,
  updateDispute,
  updateIntent,
  type DisputeRow,
  type IntentRow,
} from './records.sql.ts'
import { known, newName } from './presenting.ts'

/** Records the result of a confirmation in one transaction: status, charge, card and events. */
export const conclude = async (tx: Tx, intent: Locked<IntentRow>, method_id: string, card: Card, verdict: Verdict, at: Date): Promise<void> => {
  await updateIntent(tx, intent, {
    status: verdict.status,
    method_id,
    decline_code: verdict.status === 'failed' ? verdict.decline : null,
    settles_at: verdict.status === 'processing' ? later(at, settlesAfter) : null,
  })
  if (verdict.status === 'succeeded') {
    if (intent.kind === 'payment') {
      await insertCharge(tx, intent, at)
      if (card.disputes) await openDispute(tx, intent, card, card.disputes, at)
    }
    if (intent.reusable || intent.kind === 'setup') await keepMethod(tx, intent.account, method_id, at)
  }
  if (verdict.status !== 'processing') await tell(tx, intent.account, card, `intent.${verdict.status}`, intent.id, at)
}

export const settleIntent = async (tx: Tx, account: string, id: string): Promise<void> => {
  const intent = await lockIntent(tx, account, id)
  // Returns if the intent is not due to settle, or if a concurrent call has already settled it.
  if (!intent?.settles_at || intent.settles_at > tx.clock.wall()) return
  const card = readCard(intent.token!)!
  const verdict: Verdict = card.settles === 'failed' ? { status: 'failed', decline: 'insufficient_funds' } : { status: 'succeeded' }
  await conclude(tx, intent, intent.method_id!, card, verdict, intent.settles_at)
}

export const concludeRefund = async (tx: Tx, account: string, id: string): Promise<void> => {
  const now = tx.clock.wall()
  const settled = await settleRefund(tx, account, id, now)
  if (!settled) return
  const intent = await findIntent(tx, account, settled.intent_id)
  await tell(tx, account, readCard(intent!.token!)!, 'refund.updated', id, now)
}

/** Dispute statuses in which the charged money is withheld. */
export const withheld: readonly DisputeRow['status'][] = ['needs_response', 'under_review', 'lost']

const openDispute = async (tx: Tx, { account, id, amount, currency }: IntentRow, card: Card, { opens, becomes }: NonNullable<Card['disputes']>, at: Date) => {
  const dispute: DisputeRow = {
    account,
    id: newName('dis'),
    created_at: at,
    intent_id: id,
    status: opens,
    amount,
    currency,
    reason: 'fraudulent',
    respond_by: opens === 'needs_response' ? later(at, respondWithin) : null,
    settles_at: becomes ? later(at, settlesAfter) : null,
    settles_to: becomes ?? null,
  }
  await insertDispute(tx, dispute)
  await tell(tx, account, card, 'dispute.updated', dispute.id, at)
}

/** Changes the status of a dispute, either because the change is due or because the dispute was accepted. */
export const turn = async (tx: Tx, dispute: Locked<DisputeRow>, status: DisputeRow['status']): Promise<DisputeRow> => {
  const at = tx.clock.wall()
  const intent = known(await findIntent(tx, dispute.account, dispute.intent_id), 'intent')
  const respond_by = status === 'needs_response' ? later(at, respondWithin) : null
  const after = await updateDispute(tx, dispute, { status, respond_by, settles_at: null, settles_to: null })
  await tell(tx, dispute.account, readCard(intent.token!)!, 'dispute.updated', dispute.id, at)
  return after
}

export const concludeDispute = async (tx: Tx, account: string, id: string): Promise<void> => {
  const dispute = await lockDispute(tx, account, id)
  if (dispute?.settles_at && dispute.settles_at <= tx.clock.wall()) await turn(tx, dispute, dispute.settles_to!)
}

/** Schedules an event. The card defines how often and how late the event is sent. */
export const tell = (tx: Tx, account: string, { calls_back }: Card, kind: ProcessorEventKind, object_id: string, at: Date): Promise<void> => {
  const due_at = calls_back === 'late' ? later(at, lateBy) : at
  const callback = { account, event_id: newName('evt'), kind, object_id, happened_at: at, due_at, taken_at: null }
  return insertCallbacks(tx, calls_back === 'never' ? [] : calls_back === 'twice' ? [callback, callback] : [callback])
}
