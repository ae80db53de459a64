import { createHmac } from 'node:crypto'
import { fastify } from 'fastify'
import type pg from 'pg'
import { openApi } from '../../server/src/main/wire.ts'
import { noAudit } from '../../server/src/platform/audit/audit.ts'
import { systemClock } from '../../server/src/platform/clock.ts'
import { readConfig } from '../../server/src/platform/config.ts'
import { openLog } from '../../server/src/platform/log.ts'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'
import { openTelemetry } from '../../server/src/platform/telemetry.ts'

/** One side of a comparison: the product as it is, the product without one stage, or the bare engine. */
const side = process.argv[2]
const config = readConfig(process.env)
const log = openLog('silent')
const base = { config, clock: systemClock, log, telemetry: openTelemetry() }

const listen = async (): Promise<string> => {
  if (side === 'product') return (await openApi(base)).server.listen(config.listen)
  if (side === 'unbudgeted') return (await openApi(base, { budgets: { spend: async () => ({}), look: async () => {} } })).server.listen(config.listen)
  if (side === 'unaudited') return (await openApi(base, { audit: noAudit })).server.listen(config.listen)
  return bare().listen(config.listen)
}

/** A handler that asks the same questions of the database – who is it, which page, how many, the rows – and nothing else. */
const bare = () => {
  const pool: pg.Pool = openPool(config.database_url, 'bursar_api', { max: Math.floor(config.database_connections / 2), log, readOnly: true })
  const server = fastify()
  const page = (organization_id: string, size: number) =>
    pool.query<{ id: string }>(
      'select organization_id, created_at, id from products where organization_id = $1 order by created_at desc, id desc limit $2 offset 0',
      [organization_id, size + 1],
    )
  const total = (organization_id: string) =>
    pool.query<{ total: number }>(
      `select coalesce(sum(delta), 0)::bigint as total from collection_deltas where organization_id = $1 and collection = 'products'`,
      [organization_id],
    )
  server.get<{ Querystring: { limit?: string } }>('/v1/products/', async (request) => {
    const token = request.headers.authorization!.slice(7)
    const { rows: found } = await pool.query<{ organization_id: string; scopes: string[]; memberships: unknown }>(credential, [
      [createHmac('sha256', config.peppers[0].key).update(token).digest('hex')],
      ['blocked'],
    ])
    const { organization_id } = found[0]!
    const size = Number(request.query.limit ?? 10)
    const [keys, count] = await Promise.all([page(organization_id, size), total(organization_id)])
    const ids = keys.rows.slice(0, size).map(({ id }) => id)
    const tenants = [organization_id]
    const [products, prices, fields] = await Promise.all([
      pool.query<{ id: string }>(
        `select organization_id, id, created_at, modified_at, name, description, visibility, recurring_interval, recurring_interval_count, trial_interval, trial_interval_count, meter_interval, meter_interval_count, is_archived, metadata from products where organization_id = any($1::uuid[]) and id = any($2::uuid[])`,
        [tenants, ids],
      ),
      pool.query<{ product_id: string }>(
        `select * from product_prices where organization_id = any($1::uuid[]) and product_id = any($2::uuid[]) and is_archived = false order by position, id`,
        [tenants, ids],
      ),
      pool.query<{ product_id: string }>(
        `select a.product_id, a.position, a.required, f.* from product_custom_fields a join custom_fields f on f.organization_id = a.organization_id and f.id = a.custom_field_id where a.organization_id = any($1::uuid[]) and a.product_id = any($2::uuid[]) order by a.position`,
        [tenants, ids],
      ),
    ])
    const byId = new Map(products.rows.map((row) => [row.id, row]))
    return {
      items: ids.map((id) => ({
        ...byId.get(id),
        prices: prices.rows.filter((price) => price.product_id === id),
        attached_custom_fields: fields.rows.filter((field) => field.product_id === id),
      })),
      pagination: { total_count: count.rows[0]!.total },
    }
  })
  return server
}

const credential = 'select * from resolve_credential($1, $2)'

const address = await listen()
console.log(JSON.stringify({ port: Number(new URL(address).port) }))
process.on('SIGINT', () => process.exit(0))
