import { later } from '../../../platform/clock.ts'
import { type Locked, type Tx } from '../../../platform/postgres/postgres.ts'
import { type ProcessorEventKind } from '../payments.ts'
import { lateBy, readCard, respondWithin, settlesAfter, type Card, type Verdict } from './cards.ts'
import {
  insertCallbacks,
  insertCharge,
  insertDispute,
  insertMethod,
  keepMethod,
  runWrites,
  updateIntent,
  type StoredIntent,
  type Write,
} from './effects.sql.ts'
import { findIntent, lockDispute, lockIntent, settleRefund, updateDispute, type CallbackRow, type DisputeRow, type IntentRow } from './records.sql.ts'
import { known, newName } from './presenting.ts'

/** The card that an intent is confirmed with. */
export interface ChosenCard {
  readonly id: string
  readonly token: string
  /** True if the card was entered for this confirmation and is not stored yet. */
  readonly is_new: boolean
}

/** The result of a confirmation, and the statements that record it: status, charge, card and events. */
interface Conclusion {
  readonly after: IntentRow
  readonly writes: readonly Write[]
}

/** Composes the result of a confirmation without writing it. */
export const conclude = (intent: Locked<StoredIntent>, { id, token, is_new }: ChosenCard, verdict: Verdict, at: Date): Conclusion => {
  const { account, customer, kind } = intent
  const card = readCard(token)!
  const succeeded = verdict.status === 'succeeded'
  const is_charged = succeeded && kind === 'payment'
  const is_kept = succeeded && (intent.reusable || kind === 'setup')
  const after = {
    ...intent,
    status: verdict.status,
    method_id: id,
    decline_code: verdict.status === 'failed' ? verdict.decline : null,
    settles_at: verdict.status === 'processing' ? later(at, settlesAfter) : null,
  }
  const dispute = is_charged && card.disputes ? disputeOf(intent, card.disputes, at) : undefined
  return {
    after: { ...after, token, charged_at: is_charged ? at : null },
    writes: [
      ...(is_new ? [insertMethod({ account, id, created_at: at, customer, token, kept_at: is_kept ? at : null, forgotten_at: null })] : []),
      ...(is_kept && !is_new ? [keepMethod(account, id, at)] : []),
      updateIntent(after),
      ...(is_charged ? [insertCharge(intent, at)] : []),
      ...(dispute ? [insertDispute(dispute)] : []),
      ...insertCallbacks([
        ...(dispute ? callbacksOf(account, card, 'dispute.updated', dispute.id, at) : []),
        ...(verdict.status === 'processing' ? [] : callbacksOf(account, card, `intent.${verdict.status}`, intent.id, at)),
      ]),
    ],
  }
}

export const settleIntent = async (tx: Tx, account: string, id: string): Promise<void> => {
  const intent = await lockIntent(tx, account, id)
  // Returns if the intent is not due to settle, or if a concurrent call has already settled it.
  if (!intent?.settles_at || intent.settles_at > tx.clock.wall()) return
  const card = readCard(intent.token!)!
  const verdict: Verdict = card.settles === 'failed' ? { status: 'failed', decline: 'insufficient_funds' } : { status: 'succeeded' }
  await runWrites(tx, conclude(intent, { id: intent.method_id!, token: intent.token!, is_new: false }, verdict, intent.settles_at).writes)
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

const disputeOf = ({ account, id, amount, currency }: StoredIntent, { opens, becomes }: NonNullable<Card['disputes']>, at: Date): DisputeRow => ({
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
})

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

/** Composes the events about an object. The card defines how often and how late they are sent. */
const callbacksOf = (account: string, { calls_back }: Card, kind: ProcessorEventKind, object_id: string, at: Date): CallbackRow[] => {
  const due_at = calls_back === 'late' ? later(at, lateBy) : at
  const callback = { account, event_id: newName('evt'), kind, object_id, happened_at: at, due_at, taken_at: null }
  return calls_back === 'never' ? [] : calls_back === 'twice' ? [callback, callback] : [callback]
}

/** Schedules the events about an object. */
export const tell = (tx: Tx, ...about: Parameters<typeof callbacksOf>): Promise<void> => runWrites(tx, insertCallbacks(callbacksOf(...about)))
