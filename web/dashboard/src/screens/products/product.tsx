import { createCheckoutLink, getProduct, listCheckoutLinks, listSubscriptions, ProductVisibility, updateProduct } from '@bursar/contract'
import descriptor from 'form:ProductUpdate'
import { useParams } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { newKey, useChange, useRead } from '../../app/api.ts'
import { useAsCode } from '../../app/drawers.ts'
import { may } from '../../app/island.ts'
import { t } from '../../app/texts.ts'
import { Copy, Id, Status, Time } from '../../kit/bits.tsx'
import { Confirm } from '../../kit/dialog.tsx'
import { complaintsOf, Field, Form, textOf } from '../../kit/form.tsx'
import { number } from '../../kit/format.ts'
import { Detail, Facts, Head, Panel } from '../../kit/layout.tsx'
import { Failed, Loaded, Skeleton } from '../../kit/states.tsx'
import { toast } from '../../kit/toast.tsx'
import { priceSentence, priceText, type ProductData } from './prices.ts'

const NewPrice = lazy(() => import('./new-price.tsx'))

export const ProductScreen = () => {
  const { id } = useParams({ strict: false }) as { id: string }
  const read = useRead(getProduct, { params: { id } })
  const running = useRead(listSubscriptions, { query: { product_id: [id], active: true, limit: 1 } }, { enabled: may('sales:read') })
  useAsCode(getProduct, { params: { id } })
  const p = t.products
  const crumb = { to: '/products', name: p.title }
  const product = read.data
  if (product === undefined)
    return (
      <>
        <Head title={p.title} crumb={crumb} />
        {read.error ? <Failed error={read.error} again={read.again} /> : <Skeleton lines={8} />}
      </>
    )
  const count = number(running.data?.pagination.total_count ?? 0)
  return (
    <>
      <Head
        title={product.name}
        crumb={crumb}
        status={<Status tone={product.is_archived ? 'off' : 'good'}>{p.archived[product.is_archived ? 'true' : 'false']}</Status>}
      >
        {may('products:manage') && <Acts product={product} running={count} />}
      </Head>
      <Detail
        aside={
          <Facts
            list={[
              [p.columns.price, priceSentence(product)],
              [p.active, running.data && count],
              [p.facts.visibility, p.visibilities[product.visibility]],
              [p.facts.created, <Time key="t" at={product.created_at} />],
              [p.facts.id, <Id key="i" value={product.id} />],
            ]}
          />
        }
      >
        {!product.is_archived && <Links id={id} />}
        {may('products:manage') && <Edit key={product.modified_at} product={product} />}
        <Panel title={p.prices}>
          <ul className="rows">
            {product.prices
              .filter(({ is_archived }) => !is_archived)
              .map((price) => (
                <li key={price.id}>
                  <span>{priceText(price)}</span>
                  <span className="tag">{price.price_currency.toUpperCase()}</span>
                </li>
              ))}
          </ul>
        </Panel>
        <Panel title={p.benefits}>
          {product.benefits.length === 0 ? (
            <p className="soft">{p.noBenefits}</p>
          ) : (
            <ul className="rows">
              {product.benefits.map((benefit) => (
                <li key={benefit.id}>
                  <span>{benefit.description}</span>
                </li>
              ))}
            </ul>
          )}
        </Panel>
      </Detail>
    </>
  )
}

const Acts = ({ product: { id, is_archived, prices }, running }: { product: ProductData; running: string }) => {
  const p = t.products
  const [open, setOpen] = useState<'archive' | 'price' | null>(null)
  const update = useChange(updateProduct, ['products'])
  const flip = (to: boolean) =>
    update.mutate(
      { params: { id }, body: { is_archived: to } },
      {
        onSuccess: () => {
          setOpen(null)
          toast(to ? p.archivedDone : p.unarchivedDone, () => update.mutate({ params: { id }, body: { is_archived: !to } }))
        },
      },
    )
  const fixed = prices.filter((price) => !price.is_archived && price.amount_type === 'fixed')
  return (
    <>
      {!is_archived && fixed.length === 1 && (
        <button type="button" onClick={() => setOpen('price')}>
          {p.changePrice}
        </button>
      )}
      <button type="button" aria-busy={update.isPending} onClick={() => (is_archived ? flip(false) : setOpen('archive'))}>
        {is_archived ? p.unarchive : p.archive}
      </button>
      {open === 'archive' && (
        <Confirm
          title={p.archive}
          act={p.archive}
          busy={update.isPending}
          error={update.error && <Failed error={update.error} />}
          onAct={() => flip(true)}
          onClose={() => setOpen(null)}
        >
          <p>{p.archiveAbout(running)}</p>
        </Confirm>
      )}
      {open === 'price' && (
        <Suspense fallback={null}>
          <NewPrice id={id} prices={prices} running={running} onClose={() => setOpen(null)} />
        </Suspense>
      )}
    </>
  )
}

const Links = ({ id }: { id: string }) => {
  const p = t.products
  const [key] = useState(newKey)
  const read = useRead(listCheckoutLinks, { query: { product_id: [id], limit: 10 } })
  const create = useChange(createCheckoutLink, ['checkout-links'])
  return (
    <Panel title={p.link}>
      <p className="soft">{p.linkAbout}</p>
      <Loaded read={read} lines={1}>
        {({ items }) => (
          <>
            <ul className="rows">
              {items.map(({ id: link, url }) => (
                <li key={link}>
                  <a href={url} target="_blank" rel="noreferrer">
                    {url}
                  </a>
                  <Copy text={url} label={p.copyLink} />
                </li>
              ))}
            </ul>
            {items.length === 0 && may('products:manage') && (
              <button
                type="button"
                aria-busy={create.isPending}
                onClick={() => create.mutate({ body: { payment_processor: 'stripe', products: [id] }, headers: { 'idempotency-key': key } })}
              >
                {p.makeLink}
              </button>
            )}
            {create.error && <Failed error={create.error} />}
          </>
        )}
      </Loaded>
    </Panel>
  )
}

const Edit = ({ product: { id, name, description, visibility } }: { product: ProductData }) => {
  const p = t.products
  const update = useChange(updateProduct, ['products'])
  const complaints = complaintsOf(update.error)
  return (
    <Panel title={p.edit}>
      <Form
        label={p.edit}
        send={p.save}
        busy={update.isPending}
        error={update.error}
        fields={['name', 'description', 'visibility']}
        onSend={(data) =>
          update.mutate(
            {
              params: { id },
              body: { name: textOf(data, 'name'), description: textOf(data, 'description'), visibility: textOf(data, 'visibility') as 'public' },
            },
            { onSuccess: () => toast(p.saved) },
          )
        }
      >
        <Field name="name" label={p.fields.name} facts={descriptor.name} required value={name} complaint={complaints.name} />
        <Field
          name="description"
          label={p.fields.description}
          facts={descriptor.description}
          multiline
          value={description ?? ''}
          complaint={complaints.description}
        />
        <Field
          name="visibility"
          label={p.fields.visibility}
          required
          value={visibility}
          choices={ProductVisibility.options.map((one) => [one, p.visibilities[one]] as const)}
          complaint={complaints.visibility}
        />
      </Form>
    </Panel>
  )
}
