import { createRefund, previewRefund, RefundReason, type getOrder } from '@bursar/contract'
import type { Received } from '@bursar/contract/kit'
import { lazy, Suspense, useEffect, useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { t } from '../../app/texts.ts'
import { Money } from '../../kit/bits.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { money } from '../../kit/format.ts'
import { Facts } from '../../kit/layout.tsx'
import { Failed, Skeleton } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'
import { Postings } from './history.tsx'

const MoneyField = lazy(() => import('../../parts/money-field.tsx'))
const reasons = RefundReason.options.filter((reason) => reason !== 'dispute_prevention')
type Reason = Exclude<(typeof RefundReason.options)[number], 'dispute_prevention'>

/** Refunds an order. The server rehearses the refund first, and the dialog shows its consequences with numbers. */
const Refund = ({ order, onClose }: { order: Received<typeof getOrder>; onClose: () => void }) => {
  const { currency, refundable_amount } = order
  const [key] = useState(newKey)
  const [amount, setAmount] = useState(refundable_amount)
  const [reason, setReason] = useState<Reason>('customer_request')
  const [revoke, setRevoke] = useState(false)
  const [settled, setSettled] = useState(amount)
  useEffect(() => {
    const later = setTimeout(() => setSettled(amount), 250)
    return () => clearTimeout(later)
  }, [amount])
  const body = { order_id: order.id, amount: settled, reason, revoke_benefits: revoke }
  const preview = useRead(previewRefund, { body }, { enabled: settled > 0 && settled <= refundable_amount })
  useAsCode(createRefund, { body })
  const create = useChange(createRefund, ['orders', 'refunds', 'benefit-grants', 'customers'])
  const complaints = complaintsOf(create.error)
  const r = t.sale.refunding
  const isCurrent = settled === amount && !preview.isPlaceholder && preview.data !== undefined && preview.error === null
  const send = (data: FormData) => {
    if (!isCurrent) return
    create.mutate(
      { body: { ...body, comment: textOf(data, 'comment') }, headers: { 'idempotency-key': key } },
      {
        onSuccess: () => {
          toast(r.done)
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title={r.title} onClose={onClose} kind="wide">
      <Form
        label={r.title}
        send={r.act(preview.data && isCurrent ? money(preview.data.gross_amount, currency) : '…')}
        onSend={send}
        onCancel={onClose}
        busy={create.isPending || !isCurrent}
        error={create.error}
        fields={['amount', 'comment']}
      >
        <Suspense fallback={<Skeleton lines={1} />}>
          <MoneyField
            label={r.amount}
            currency={currency}
            value={amount}
            most={refundable_amount}
            hint={r.most(money(refundable_amount, currency))}
            complaint={complaints.amount}
            autoFocus
            onChange={setAmount}
          />
        </Suspense>
        <Field
          name="reason"
          label={r.reason}
          required
          value={reason}
          choices={reasons.map((one) => [one, r.reasons[one]] as const)}
          onChange={(value) => setReason(value as Reason)}
        />
        <Field name="comment" label={r.comment} multiline complaint={complaints.comment} />
        {order.subscription_id === null ? (
          <label className="choice">
            <input type="checkbox" checked={revoke} onChange={({ target }) => setRevoke(target.checked)} />
            {r.revoke}
          </label>
        ) : (
          <p className="soft">{r.subscription}</p>
        )}
        <section className="preview" aria-label={r.preview} aria-busy={!isCurrent} aria-live="polite">
          <h3>{r.preview}</h3>
          {preview.error ? (
            <Failed error={preview.error} />
          ) : (
            preview.data && (
              <>
                <Facts
                  list={[
                    [r.net, <Money key="n" amount={preview.data.net_amount} currency={currency} />],
                    [r.tax, <Money key="t" amount={preview.data.tax_amount} currency={currency} />],
                    [r.gross, <Money key="g" amount={preview.data.gross_amount} currency={currency} />],
                    [r.left, <Money key="l" amount={preview.data.refundable_amount_left} currency={currency} />],
                    [r.status, t.orders.statuses[preview.data.order_status]],
                  ]}
                />
                <p>{r.ends(preview.data.access_ends_count)}</p>
                {preview.data.access_ends.length > 0 && (
                  <ul>
                    {preview.data.access_ends.map(({ grant_id, benefit_description }) => (
                      <li key={grant_id}>{benefit_description}</li>
                    ))}
                  </ul>
                )}
                {preview.data.credit_note && <p>{r.creditNote}</p>}
                <p className="soft">
                  {r.events}: <code>{preview.data.events.join(', ')}</code>
                </p>
                <details>
                  <summary>{r.postings}</summary>
                  {preview.data.postings.map(({ id, entries }) => (
                    <Postings key={id} entries={entries} currency={currency} />
                  ))}
                </details>
              </>
            )
          )}
        </section>
      </Form>
    </Dialog>
  )
}
export default Refund
