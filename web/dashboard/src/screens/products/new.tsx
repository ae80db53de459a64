import { createProduct, getOrganization, ProductVisibility, type RecurringInterval } from '@bursar/contract'
import descriptor from 'form:ProductCreate'
import { useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { island, may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { money } from '../../kit/format.ts'
import { Head } from '../../kit/layout.tsx'
import { Empty, Skeleton } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'

const MoneyField = lazy(() => import('../../parts/money-field.tsx'))

type Rhythm = keyof typeof t.products.rhythms
type Kind = keyof typeof t.products.kinds
/** The currencies of the form, beside that of the organization. */
const currencies = ['usd', 'eur', 'gbp', 'chf', 'jpy'] as const
type Currency = (typeof currencies)[number]

/** The price of the form as a request names it. */
const priceOf = (kind: Kind, price_currency: Currency, amount: number) =>
  kind === 'fixed'
    ? ({ amount_type: 'fixed', price_currency, price_amount: amount } as const)
    : kind === 'custom'
      ? ({ amount_type: 'custom', price_currency, minimum_amount: amount } as const)
      : { amount_type: 'seat_based' as const, price_currency, seat_tiers: { tiers: [{ min_seats: 1, price_per_seat: amount }] } }

/** A first product needs a name, a price and a rhythm. Everything else is folded. */
export const NewProduct = () => {
  const [key] = useState(newKey)
  const [name, setName] = useState('')
  const [amount, setAmount] = useState(900)
  const [rhythm, setRhythm] = useState<Rhythm>('month')
  const [kind, setKind] = useState<Kind>('fixed')
  const [chosen, setCurrency] = useState<Currency | null>(null)
  const organization = useRead(getOrganization, { params: { id: island.organization.id } })
  const usual = (organization.data?.default_presentment_currency ?? 'usd') as Currency
  const currency = chosen ?? usual
  const [description, setDescription] = useState('')
  const create = useChange(createProduct, ['products'])
  const navigate = useNavigate()
  const p = t.products
  const price = priceOf(kind, currency, amount)
  const body = { name, ...(rhythm === 'once' ? {} : { recurring_interval: rhythm }), prices: [price] }
  useAsCode(createProduct, { body })
  const crumb = { to: '/products', name: p.title }
  if (!may('products:manage'))
    return (
      <>
        <Head title={p.create} crumb={crumb} />
        <Empty text={t.states.forbidden} />
      </>
    )
  const complaints = complaintsOf(create.error)
  const priceComplaint = Object.entries(complaints).find(([field]) => field.startsWith('prices'))
  const send = (data: FormData) =>
    create.mutate(
      { body: { ...body, description: textOf(data, 'description'), visibility: textOf(data, 'visibility') as 'public' }, headers: { 'idempotency-key': key } },
      {
        onSuccess: ({ id }) => {
          toast(p.created)
          void navigate({ to: `/products/${id}` as '/' })
        },
      },
    )
  return (
    <>
      <Head title={p.create} crumb={crumb} />
      <div className="editor">
        <Form
          label={p.create}
          send={p.create}
          onSend={send}
          busy={create.isPending}
          error={create.error}
          fields={['name', 'description', 'visibility', ...(priceComplaint ? [priceComplaint[0]] : [])]}
        >
          <Field name="name" label={p.fields.name} facts={descriptor.name} complaint={complaints.name} onChange={setName} autoFocus />
          <div className="pair">
            <Suspense fallback={<Skeleton lines={1} />}>
              <MoneyField label={p.fields.price} currency={currency} value={amount} least={0} onChange={setAmount} complaint={priceComplaint?.[1]} />
            </Suspense>
            <Field
              name="rhythm"
              label={p.fields.rhythm}
              required
              value={rhythm}
              choices={(['once', 'month', 'year', 'week', 'day'] satisfies ('once' | (typeof RecurringInterval.options)[number])[]).map(
                (one) => [one, p.rhythms[one]] as const,
              )}
              onChange={(value) => setRhythm(value as Rhythm)}
            />
          </div>
          <details>
            <summary>{p.more}</summary>
            <div className="pair">
              <Field name="kind" label={p.fields.kind} required value={kind} choices={Object.entries(p.kinds)} onChange={(value) => setKind(value as Kind)} />
              <Field
                key={usual}
                name="currency"
                label={p.fields.currency}
                required
                value={currency}
                choices={[...new Set([usual, ...currencies])].map((one) => [one, one.toUpperCase()] as const)}
                onChange={(value) => setCurrency(value as Currency)}
              />
            </div>
            <Field
              name="description"
              label={p.fields.description}
              facts={descriptor.description}
              complaint={complaints.description}
              multiline
              onChange={setDescription}
            />
            <Field
              name="visibility"
              label={p.fields.visibility}
              required
              value="public"
              choices={ProductVisibility.options.map((one) => [one, p.visibilities[one]] as const)}
              complaint={complaints.visibility}
            />
          </details>
        </Form>
        <Preview name={name} description={description} amount={money(amount, currency)} rhythm={rhythm} kind={kind} free={amount === 0 && kind === 'fixed'} />
      </div>
    </>
  )
}

/** The checkout as a buyer will see it. It changes with each key. */
const Preview = ({
  name,
  description,
  amount,
  rhythm,
  kind,
  free,
}: {
  name: string
  description: string
  amount: string
  rhythm: Rhythm
  kind: Kind
  free: boolean
}) => {
  const p = t.products
  const price = free ? p.free : kind === 'seat_based' ? p.perSeat(amount) : kind === 'custom' ? p.custom(amount) : amount
  const whole = rhythm === 'once' ? price : `${price} ${p.intervals[rhythm](1)}`
  return (
    <section className="checkout-preview" aria-label={p.preview}>
      <p className="soft">{p.preview}</p>
      <h2>{name === '' ? p.untitled : name}</h2>
      <p className="price">{price}</p>
      {description !== '' && <p>{description}</p>}
      <dl className="facts">
        <div>
          <dt>{p.due}</dt>
          <dd>{price}</dd>
        </div>
        {rhythm !== 'once' && (
          <div>
            <dd>{p.afterwards(whole)}</dd>
          </div>
        )}
      </dl>
      <span className="pay">{rhythm === 'once' ? p.pay : p.subscribe}</span>
    </section>
  )
}
