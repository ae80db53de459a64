import { createHmac } from 'node:crypto'
import { fastify, type FastifyInstance, type FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { Config } from '../../server/src/platform/config.ts'
import type { Log } from '../../server/src/platform/log.ts'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'

type Row = Record<string, unknown>

/**
 * Opens handlers that run the same statements as the product: authentication, page, total, rows and related rows. The
 * handlers have no rate limits, scopes, checks or schemas.
 */
export const openBare = (config: Config, log: Log): FastifyInstance => {
  const pool: pg.Pool = openPool(config.database_url, 'bursar_api', { max: Math.floor(config.database_connections / 2), log, readOnly: true })
  const ask = async (text: string, values: readonly unknown[]): Promise<Row[]> => (await pool.query<Row>(text, [...values])).rows
  const server = fastify()

  const page = async (request: FastifyRequest, table: string) => {
    const { limit = '10', page: number = '1' } = request.query as { limit?: string; page?: string }
    const token = request.headers.authorization!.slice(7)
    const [actor] = await ask('select * from resolve_credential($1, $2)', [
      [createHmac('sha256', config.peppers[0].key).update(token).digest('hex')],
      ['blocked'],
    ])
    const tenant = actor!.organization_id as string
    const size = Number(limit)
    const [keys, counted] = await Promise.all([
      ask(keysOf(table), [tenant, size + 1, (Number(number) - 1) * size]),
      ask('select coalesce(sum(delta), 0)::bigint as total from collection_deltas where organization_id = any($1::uuid[]) and collection = $2', [
        [tenant],
        table,
      ]),
    ])
    return { tenant, ids: keys.slice(0, size).map(({ k1 }) => k1 as string), pagination: { total_count: counted[0]!.total } }
  }

  server.get('/v1/products/', async (request) => {
    const { tenant, ids, pagination } = await page(request, 'products')
    const [products, prices, fields, benefits, medias] = await Promise.all([
      ask(`select ${productColumns} from products where organization_id in ($1) and id in (${places(ids, 2)})`, [tenant, ...ids]),
      ask(
        `select r.*, case when m.id is null then null else jsonb_build_object(
           'id', m.id, 'name', m.name, 'unit', m.unit, 'custom_label', m.custom_label, 'custom_multiplier', m.custom_multiplier) end as meter
         from product_prices r left join meters m on m.organization_id = r.organization_id and m.id = r.meter_id
         where r.organization_id = any($1::uuid[]) and r.product_id = any($2::uuid[]) and r.is_archived = false and r.source = 'catalog' order by r.position, r.id`,
        [[tenant], ids],
      ),
      ask(
        `select a.product_id, a.position, a.required, f.organization_id, f.id, f.created_at, f.modified_at, f.type, f.slug, f.name, f.properties, f.metadata
         from product_custom_fields a join custom_fields f on f.organization_id = a.organization_id and f.id = a.custom_field_id and f.deleted_at is null
         where a.organization_id = any($1::uuid[]) and a.product_id = any($2::uuid[]) order by a.position`,
        [[tenant], ids],
      ),
      ask(
        `select b.*, a.product_id from product_benefits as a inner join benefits as b on b.organization_id = a.organization_id and b.id = a.benefit_id
         where a.organization_id in ($1) and a.product_id in (${places(ids, 2)}) and b.deleted_at is null order by a.position`,
        [tenant, ...ids],
      ),
      ask(
        `select f.*, a.product_id from product_medias as a inner join files as f on f.organization_id = a.organization_id and f.id = a.file_id
         where a.organization_id in ($1) and a.product_id in (${places(ids, 2)}) order by a.position`,
        [tenant, ...ids],
      ),
    ])
    const of = (rows: readonly Row[], id: string) => rows.filter(({ product_id }) => product_id === id)
    const items = ids.map((id) => ({
      ...named(products, id),
      prices: of(prices, id),
      attached_custom_fields: of(fields, id),
      benefits: of(benefits, id),
      medias: of(medias, id),
    }))
    return { items, pagination }
  })

  server.get('/v1/orders/', async (request) => {
    const { tenant, ids, pagination } = await page(request, 'orders')
    const orders = await ask(`select * from orders where organization_id = any($1::uuid[]) and id in (${places(ids, 2)})`, [[tenant], ...ids])
    const referred = (column: string) => [...new Set(orders.map((order) => order[column] as string))]
    const [customerIds, productIds] = [referred('customer_id'), referred('product_id')]
    const [lines, customers, products] = await Promise.all([
      ask(`select * from order_items where organization_id in ($1) and order_id in (${places(ids, 2)}) order by position`, [tenant, ...ids]),
      ask(`select ${customerColumns} from customers where organization_id = any($2::uuid[]) and id in (${places(customerIds, 3)})`, [
        [tenant],
        [tenant],
        ...customerIds,
      ]),
      ask(`select ${productColumns} from products where organization_id in ($1) and id in (${places(productIds, 2)})`, [tenant, ...productIds]),
    ])
    const items = ids.map((id) => {
      const order = named(orders, id)!
      return {
        ...order,
        items: lines.filter(({ order_id }) => order_id === id),
        customer: named(customers, order.customer_id),
        product: named(products, order.product_id),
      }
    })
    return { items, pagination }
  })
  return server
}

/** Returns the statement that finds a page. Its values are the tenant, the page size plus one, and the offset. */
export const keysOf = (table: string) =>
  `select organization_id as tenant, created_at as k0, id as k1 from ${table} where organization_id = $1::uuid and true order by created_at desc, id desc limit $2 offset $3`

const places = (values: readonly unknown[], from: number) => values.map((_, at) => `$${from + at}`).join(', ')
const named = (rows: readonly Row[], id: unknown) => rows.find((row) => row.id === id)

const productColumns =
  'organization_id, id, created_at, modified_at, name, description, visibility, recurring_interval, recurring_interval_count, trial_interval, trial_interval_count, meter_interval, meter_interval_count, is_archived, metadata'
const customerColumns = `organization_id, id, created_at, modified_at, deleted_at, email, email_verified, external_id, name, billing_name, billing_address, tax_id, tax_id_format, locale, metadata, default_payment_method_id, first_user_event_at, forgotten_at, clock_id, case when becomes_team and organization_id = any($1::uuid[]) then 'team' else type end as type`
