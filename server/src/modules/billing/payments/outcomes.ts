import type { Intent, ProcessorRefusal } from '../../../gateways/payments/payments.ts'
import type { PaymentRow } from './payments.sql.ts'

/** Returns the columns of a pending attempt that the processor's result changes. Throws if another amount was charged. */
export const settledBy = (payment: PaymentRow, intent: Intent, now: Date): Partial<PaymentRow> => {
  if (intent.status === 'succeeded' && (intent.amount !== payment.amount || intent.currency !== payment.currency))
    throw new Error('the processor charged another amount than was requested')
  const seen = {
    intent_status: intent.status,
    ...(intent.method
      ? {
          method: intent.method.type,
          method_metadata: intent.method.type === 'card' ? { brand: intent.method.brand ?? 'unknown', last4: intent.method.last4 ?? '0000' } : null,
          processor_method: intent.later_method === undefined ? intent.method : intent.later_method,
        }
      : {}),
  }
  if (intent.status === 'succeeded') return { ...seen, status: 'succeeded', settled_at: now, due_at: null }
  if (intent.status !== 'failed' && intent.status !== 'canceled') return seen
  return {
    ...seen,
    status: 'failed',
    settled_at: now,
    due_at: null,
    decline_reason: intent.decline?.code ?? 'canceled',
    decline_message: intent.decline?.message ?? 'The payment was canceled.',
    decline_final: intent.decline?.final ?? false,
  }
}

/** Converts a refusal by the processor to the result of a declined payment. */
export const refused = (payment: PaymentRow, error: ProcessorRefusal): Intent => ({
  id: payment.intent_id ?? '',
  kind: payment.kind,
  status: 'failed',
  amount: payment.amount,
  currency: payment.currency,
  client_secret: '',
  redirect_url: null,
  metadata: {},
  method: null,
  decline: { code: error.code, message: error.message, final: false },
  charged_at: null,
})
