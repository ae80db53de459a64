import { createHmac } from 'node:crypto'
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import type pg from 'pg'
import { newId } from '../../server/src/kernel/ids.ts'
import { avatarOf } from '../../server/src/modules/customers/index.ts'
import type { Config } from '../../server/src/platform/config.ts'
import type { Log } from '../../server/src/platform/log.ts'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'

type Row = Record<string, unknown>

/**
 * Opens handlers as a good engineer would write them by hand for these few answers: a fixed window in Redis, one prepared
 * statement for the credential and one for the answer. They return the same bodies as the product. They know one kind of
 * token, one sort order and no filters, and check neither scopes nor the shape of the answer.
 */
export const openBare = (config: Config, log: Log): FastifyInstance => {
  const most = Math.floor(config.database_connections / 2)
  const reading = openPool(config.database_url, 'bursar_api', { max: most, log, readOnly: true })
  const writing = openPool(config.database_url, 'bursar_api', { max: most, log })
  const redis = config.redis_url ? new Redis(config.redis_url.reveal(), { enableAutoPipelining: true }) : undefined
  redis?.defineCommand('count_request', {
    numberOfKeys: 1,
    lua: `local used = redis.call('INCR', KEYS[1]) if used == 1 then redis.call('PEXPIRE', KEYS[1], 60000) end return used`,
  })
  const counts = new Map<string, number>()
  const countRequest = async (tenant: string): Promise<number> => {
    const key = `bare:${tenant}:${Math.floor(Date.now() / 60_000)}`
    if (redis) return (redis as unknown as { count_request: (key: string) => Promise<number> }).count_request(key)
    const used = (counts.get(key) ?? 0) + 1
    counts.set(key, used)
    return used
  }
  const limit = config.budgets.api?.[0]?.[0] ?? 300

  /** Authenticates the caller and counts the request. Returns the organization. */
  const admit = async (request: FastifyRequest): Promise<string> => {
    const hash = createHmac('sha256', config.peppers[0].key).update(request.headers.authorization!.slice(7)).digest('hex')
    const { rows } = await reading.query<{ organization_id: string }>({ ...credential, values: [hash] })
    const tenant = rows[0]!.organization_id
    if ((await countRequest(tenant)) > limit) throw new Error('too many requests')
    return tenant
  }
  const page = async (request: FastifyRequest, pages: Pages, present: (row: Row) => Row) => {
    const tenant = await admit(request)
    const { limit: asked = '10', page: number = '1' } = request.query as { limit?: string; page?: string }
    const size = Number(asked)
    const first = number === '1'
    const { rows } = await reading.query<Row>({
      ...(first ? pages.first(size) : pages.later),
      values: first ? [tenant] : [tenant, size + 1, (Number(number) - 1) * size],
    })
    const total = Number(rows[0]!.total_count)
    const items = rows[0]!.id === null ? [] : rows.slice(0, size).map(present)
    const last = items.at(-1)
    const next_cursor =
      rows.length > size ? Buffer.from(JSON.stringify(['-created_at', (last!.created_at as Date).toISOString(), last!.id])).toString('base64url') : null
    return { items, pagination: { total_count: total, max_page: Math.ceil(total / size), next_cursor } }
  }

  const server = fastify()
  server.get('/v1/products/', (request) => page(request, productsPage, presentProduct))
  server.get('/v1/orders/', (request) => page(request, ordersPage, presentOrder))
  server.get('/v1/products/:id', async (request) => {
    const tenant = await admit(request)
    const { rows } = await reading.query<Row>({ ...oneProduct, values: [tenant, (request.params as { id: string }).id] })
    return presentProduct(rows[0]!)
  })
  server.post('/v1/customers/', async (request, reply) => {
    const tenant = await admit(request)
    const { email, name, external_id } = request.body as { email: string; name: string; external_id: string }
    const created_at = new Date()
    const [id, member_id] = [newId(created_at), newId(created_at)]
    const customer = presentCustomer({
      created_at,
      modified_at: null,
      id,
      metadata: {},
      external_id,
      email_verified: false,
      name,
      billing_name: null,
      billing_address: null,
      tax_id: null,
      locale: null,
      organization_id: tenant,
      default_payment_method_id: null,
      deleted_at: null,
      first_user_event_at: null,
      type: 'individual',
      email,
    })
    const member = { id: member_id, created_at, modified_at: null, customer_id: id, email, name, external_id, role: 'owner' }
    const events = [
      JSON.stringify({ type: 'customer.created', timestamp: created_at, data: customer }),
      JSON.stringify({ type: 'member.created', timestamp: created_at, data: member }),
    ]
    const client: pg.PoolClient = await writing.connect()
    try {
      await client.query('begin')
      await client.query({ ...createCustomer, values: [tenant, id, created_at, email, name, external_id, member_id, events] })
      await client.query({ ...noteCreation, values: [tenant, newId(created_at), created_at, newId(created_at), id] })
      await client.query('commit')
    } catch (error) {
      await client.query('rollback')
      throw error
    } finally {
      client.release()
    }
    return reply.code(201).send(customer)
  })
  server.addHook('onClose', async () => {
    redis?.disconnect()
    await Promise.all([reading.end(), writing.end()])
  })
  return server
}

const prepared = (name: string, text: string) => ({ name, text })

const credential = prepared(
  'credential',
  `select t.organization_id from credentials c
   join organization_access_tokens t on t.organization_id = c.organization_id and t.id = c.subject_id and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
   join organizations o on o.id = t.organization_id and o.deleted_at is null and o.status <> 'blocked'
   where c.hash = $1`,
)

const bareProduct = (alias: string) =>
  'organization_id, id, created_at, modified_at, name, description, visibility, recurring_interval, recurring_interval_count, trial_interval, trial_interval_count, meter_interval, meter_interval_count, is_archived, metadata'
    .split(', ')
    .map((column) => `${alias}.${column}`)
    .join()

const productColumns = `${bareProduct('p')},
  array(select row_to_json(l) from (
    select r.*, case when m.id is null then null else json_build_object('id', m.id, 'name', m.name, 'unit', m.unit, 'custom_label', m.custom_label,
      'custom_multiplier', m.custom_multiplier) end as meter
    from product_prices r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
    where r.organization_id = p.organization_id and r.product_id = p.id and not r.is_archived and r.source = 'catalog' order by r.position, r.id) l) as prices,
  array(select json_build_object('custom_field_id', f.id, 'custom_field', f, 'order', a.position, 'required', a.required)
    from product_custom_fields a join custom_fields f on f.organization_id = a.organization_id and f.id = a.custom_field_id and f.deleted_at is null
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position) as attached_custom_fields,
  array(select row_to_json(b) from product_benefits a join benefits b on b.organization_id = a.organization_id and b.id = a.benefit_id and b.deleted_at is null
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position) as benefits,
  array(select row_to_json(f) from product_medias a join files f on f.organization_id = a.organization_id and f.id = a.file_id
    where a.organization_id = p.organization_id and a.product_id = p.id order by a.position) as medias`

const total = (collection: string) =>
  `(select coalesce(sum(delta), 0) as total_count from collection_deltas where organization_id = $1::uuid and collection = '${collection}') t`

interface Pages {
  /** The limit of the first page is part of its text. With a parameter, the database would plan the page for each request. */
  readonly first: (size: number) => { name: string; text: string }
  readonly later: { name: string; text: string }
}

const pagesOf = (name: string, textOf: (limit: string) => string): Pages => {
  const known = new Map<number, { name: string; text: string }>()
  return {
    first: (size) => known.get(size) ?? known.set(size, prepared(`${name}_${size}`, textOf(`limit ${size + 1}`))).get(size)!,
    later: prepared(name, textOf('limit $2 offset $3')),
  }
}

const productsPage = pagesOf(
  'products',
  (limit) => `select t.total_count, ${productColumns} from ${total('products')} left join (
     select * from products where organization_id = $1::uuid order by created_at desc, id desc ${limit}) p on true`,
)

const oneProduct = prepared('product', `select ${productColumns} from products p where p.organization_id = $1::uuid and p.id = $2::uuid`)

const ordersPage = pagesOf(
  'orders',
  (limit) => `select t.total_count, o.*,
     array(select row_to_json(i) from order_items i where i.organization_id = o.organization_id and i.order_id = o.id order by i.position) as items,
     (select row_to_json(c) from customers c where c.organization_id = o.organization_id and c.id = o.customer_id) as customer,
     (select row_to_json(l) from (select ${bareProduct('p')} from products p where p.organization_id = o.organization_id and p.id = o.product_id) l) as product,
     (select row_to_json(d) from discounts d where d.organization_id = o.organization_id and d.id = o.discount_id) as discount,
     (select row_to_json(s) from subscriptions s where s.organization_id = o.organization_id and s.id = o.subscription_id) as subscription
   from ${total('orders')} left join (
     select * from orders where organization_id = $1::uuid order by created_at desc, id desc ${limit}) o on true`,
)

const createCustomer = prepared(
  'create_customer',
  `with customer as (
     insert into customers (organization_id, id, created_at, type, email, email_verified, name, external_id, metadata) values ($1, $2, $3, 'individual', $4, false, $5, $6, '{}')
   ), member as (
     insert into members (organization_id, id, customer_id, created_at, email, name, external_id, role) values ($1, $7, $2, $3, $4, $5, $6, 'owner')
   ), state as (
     insert into customer_states (organization_id, id, due_at) values ($1, $2, $3)
   )
   insert into events (organization_id, id, kind, resource_id, customer_id, api_version, payload, business_at, wall_at)
   select $1, gen_random_uuid(), (e.payload::json)->>'type', ((e.payload::json)->'data'->>'id')::uuid, $2, '2026-04', e.payload::json, $3, $3
   from unnest($8::text[]) with ordinality as e (payload, place) order by e.place
   returning pg_notify('bursar_events', $1::text)`,
)

const noteCreation = prepared(
  'note_creation',
  `insert into audit_log (organization_id, id, at, operation, request_id, actor_kind, resource_id, changes)
   values ($1, $2, $3, 'customers:create', $4, 'organization', $5, json_build_object('changes',
     (select json_agg(json_build_array(note)) from unnest(string_to_array(rtrim(current_setting('bursar.changes', true), E'\\n'), E'\\n')) note), 'complete', true))`,
)

/** Timestamps inside JSON columns come as text with the offset of UTC. */
const time = (text: unknown): unknown => (typeof text === 'string' ? new Date(text) : text)

const presentPrice = ({ id, created_at, modified_at, source, price_currency, tax_behavior, is_archived, product_id, ...price }: Row): Row => {
  const common = {
    created_at: time(created_at),
    modified_at: time(modified_at),
    id,
    source,
    amount_type: price.amount_type,
    price_currency,
    tax_behavior,
    is_archived,
    product_id,
  }
  if (price.amount_type === 'fixed') return { ...common, price_amount: price.price_amount }
  throw new Error(`the minimal handler knows fixed prices only, not ${String(price.amount_type)}`)
}

const presentBareProduct = (row: Row): Row => ({
  created_at: time(row.created_at),
  modified_at: time(row.modified_at),
  id: row.id,
  organization_id: row.organization_id,
  name: row.name,
  description: row.description,
  visibility: row.visibility,
  recurring_interval: row.recurring_interval,
  recurring_interval_count: row.recurring_interval_count,
  trial_interval: row.trial_interval,
  trial_interval_count: row.trial_interval_count,
  meter_interval: row.meter_interval,
  meter_interval_count: row.meter_interval_count,
  is_recurring: row.recurring_interval !== null,
  is_archived: row.is_archived,
  metadata: row.metadata,
})

const presentProduct = (row: Row): Row => ({
  ...presentBareProduct(row),
  prices: (row.prices as Row[]).map(presentPrice),
  benefits: row.benefits,
  medias: row.medias,
  attached_custom_fields: row.attached_custom_fields,
})

const presentCustomer = (row: Row): Row => ({
  created_at: time(row.created_at),
  modified_at: time(row.modified_at),
  id: row.id,
  metadata: row.metadata,
  external_id: row.external_id,
  email_verified: row.email_verified,
  name: row.name,
  billing_name: row.billing_name ?? row.name,
  billing_address: row.billing_address,
  tax_id: row.tax_id,
  locale: row.locale,
  organization_id: row.organization_id,
  default_payment_method_id: row.default_payment_method_id,
  deleted_at: time(row.deleted_at),
  first_user_event_at: time(row.first_user_event_at),
  avatar_url: avatarOf(row as never),
  type: row.type,
  email: row.email,
})

const paid = ['paid', 'refunded', 'partially_refunded']

const presentOrder = (row: Row): Row => {
  const { customer, product, items } = row as unknown as { customer: Row; product: Row | null; items: Row[] }
  const [net, tax, refunded, refundedTax] = [row.net_amount, row.tax_amount, row.refunded_amount, row.refunded_tax_amount] as number[]
  return {
    created_at: row.created_at,
    modified_at: row.modified_at,
    id: row.id,
    status: row.status,
    paid: paid.includes(row.status as string),
    subtotal_amount: row.subtotal_amount,
    discount_amount: row.discount_amount,
    net_amount: net,
    tax_amount: tax,
    total_amount: row.total_amount,
    applied_balance_amount: row.applied_balance_amount,
    due_amount: row.due_amount,
    refunded_amount: refunded,
    refunded_tax_amount: refundedTax,
    currency: row.currency,
    billing_reason: row.billing_reason,
    billing_name: row.billing_name,
    billing_address: row.billing_address,
    invoice_number: row.invoice_number,
    is_invoice_generated: row.is_invoice_generated,
    receipt_number: row.receipt_number,
    seats: row.seats,
    customer_id: row.customer_id,
    product_id: row.product_id,
    discount_id: row.discount_id,
    subscription_id: row.subscription_id,
    checkout_id: row.checkout_id,
    next_payment_attempt_at: row.next_payment_attempt_at,
    items: items.map((item) => ({
      created_at: time(item.created_at),
      modified_at: null,
      id: item.id,
      label: item.label,
      amount: item.amount,
      tax_amount: item.tax_amount,
      proration: item.proration,
      product_price_id: item.product_price_id,
    })),
    description: row.description,
    refundable_amount: net! - refunded!,
    refundable_tax_amount: tax! - refundedTax!,
    metadata: row.metadata,
    custom_field_data: row.custom_field_data,
    platform_fee_amount: 0,
    platform_fee_currency: null,
    customer: presentCustomer(customer),
    product: product && presentBareProduct(product),
    discount: row.discount,
    subscription: row.subscription,
  }
}
