import { updateProduct } from '@bursar/contract'
import { lazy, Suspense, useState } from 'react'
import { useChange } from '../../app/api.ts'
import { t } from '../../app/texts.ts'
import { Dialog } from '../../kit/dialog.tsx'
import { Form } from '../../kit/form.tsx'
import { Skeleton } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'
import type { ProductData } from './prices.ts'

const MoneyField = lazy(() => import('../../parts/money-field.tsx'))

/** Replaces the fixed price of a product. Existing buyers keep theirs, and the dialog says how many they are. */
const NewPrice = ({ id, prices, running, onClose }: { id: string; prices: ProductData['prices']; running: string; onClose: () => void }) => {
  const p = t.products
  const current = prices.filter(({ is_archived }) => !is_archived)
  const old = current.find((price) => price.amount_type === 'fixed')
  const [amount, setAmount] = useState(old?.amount_type === 'fixed' ? old.price_amount : 0)
  const update = useChange(updateProduct, ['products'])
  if (old === undefined) return null
  const send = () =>
    update.mutate(
      {
        params: { id },
        body: {
          prices: [
            ...current.filter((price) => price !== old).map((price) => ({ id: price.id })),
            { amount_type: 'fixed', price_currency: old.price_currency as 'usd', price_amount: amount },
          ],
        },
      },
      {
        onSuccess: () => {
          toast(p.priceChanged)
          onClose()
        },
      },
    )
  return (
    <Dialog title={p.changePrice} onClose={onClose}>
      <Form label={p.changePrice} send={p.changePrice} onSend={send} onCancel={onClose} busy={update.isPending} error={update.error} fields={[]}>
        <p>{p.changePriceAbout(running)}</p>
        <Suspense fallback={<Skeleton lines={1} />}>
          <MoneyField label={p.newPrice} currency={old.price_currency} value={amount} least={0} autoFocus onChange={setAmount} />
        </Suspense>
      </Form>
    </Dialog>
  )
}
export default NewPrice
