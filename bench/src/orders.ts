import type pg from 'pg'
import type { World } from '../../server/test/harness/world.ts'

/** Orders per customer, and products per shop. */
const perCustomer = 10
const products = 20

/**
 * Inserts the orders of an organization from number `from` to number `to`, three seconds apart, the latest last. Each
 * order has a line, a customer and a product, as after a purchase. Constraints and triggers are disabled, because they
 * would take hours. The collection counters are therefore inserted here.
 */
export const makeOrders = (world: World, organization_id: string, from: number, to: number): Promise<void> =>
  world.database.owner(async (owner) => {
    await owner.query('set session_replication_role = replica; set synchronous_commit = off; set maintenance_work_mem = 512000; set jit = off')
    await owner.query(made)
    if (from === 0) await makeProducts(owner, organization_id)
    const restore = to - from > 100_000 ? await dropIndexes(owner, ['orders', 'order_items', 'customers']) : async () => {}
    await owner.query(
      `insert into customers (organization_id, id, created_at, type, email, email_verified, name, billing_name, billing_address, metadata)
       select $1::uuid, ${customer('n')}, ${start} + n * interval '30 seconds', 'individual', 'buyer-' || n || '@people.test', false, 'Buyer ' || n, 'Buyer ' || n,
         ${address}, '{}'
       from generate_series(${Math.ceil(from / perCustomer)}, ${Math.ceil(to / perCustomer) - 1}) n`,
      [organization_id],
    )
    await owner.query(
      `insert into orders (organization_id, id, created_at, status, billing_reason, currency, subtotal_amount, discount_amount, net_amount, tax_amount,
         total_amount, applied_balance_amount, due_amount, carried_amount, tax_behavior, billing_name, billing_address, invoice_number, customer_id,
         product_id, description, metadata, custom_field_data)
       select $1::uuid, ${order}, ${orderedAt}, case when n % 50 = 0 then 'pending' when n % 20 = 1 then 'refunded' else 'paid' end, 'purchase', 'usd',
         1000 + n % 9000, 0, 1000 + n % 9000, 190, 1190 + n % 9000, 0, 1190 + n % 9000, 0, 'exclusive', 'Buyer ' || n / ${perCustomer}, ${address},
         'SHOP-' || n, ${customer(`n / ${perCustomer}`)}, ${product(`n % ${products}`)}, 'Product ' || n % ${products}, '{"campaign": "spring"}', '{}'
       from generate_series(${from}, ${to - 1}) n`,
      [organization_id],
    )
    await owner.query(
      `insert into order_items (organization_id, id, created_at, order_id, position, label, amount, discount_amount, net_amount, tax_amount, proration)
       select $1::uuid, ${line}, ${orderedAt}, ${order}, 0, 'Product ' || n % ${products}, 1000 + n % 9000, 0, 1000 + n % 9000, 190, false
       from generate_series(${from}, ${to - 1}) n`,
      [organization_id],
    )
    const arrived = Math.ceil(to / perCustomer) - Math.ceil(from / perCustomer)
    await owner.query(`insert into collection_deltas values ($1, 'orders', $2), ($1, 'customers', $3)`, [organization_id, to - from, arrived])
    await restore()
    // Vacuums explicitly, because autovacuum has had no time to run. In production it runs between purchases.
    await owner.query('vacuum analyze orders, order_items, customers, products, collection_deltas')
  })

/** Defines a function that builds an id for a time and a name. The same arguments give the same id. */
export const made = `
  create or replace function pg_temp.made(at timestamptz, what text) returns uuid language sql immutable as $$
    select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '4' || substr(md5(what), 1, 3) || '8' || substr(md5(what), 4, 15))::uuid $$`

const start = `timestamptz '2025-01-01 00:00:00Z'`
const orderedAt = `${start} + n * interval '3 seconds'`
const order = `pg_temp.made(${orderedAt}, 'order ' || $1::uuid || n)`
const line = `pg_temp.made(${orderedAt}, 'line ' || $1::uuid || n)`
const customer = (n: string) => `pg_temp.made(${start} + (${n}) * interval '30 seconds', 'customer ' || $1::uuid || (${n}))`
const product = (n: string) => `pg_temp.made(${start}, 'product ' || $1::uuid || (${n}))`
const address = `'{"line1": "Am Markt 1", "line2": null, "postal_code": "10115", "city": "Berlin", "state": null, "country": "DE"}'`

const makeProducts = async (owner: pg.Client, organization_id: string) => {
  await owner.query(
    `insert into products (organization_id, id, created_at, name, visibility, is_archived, metadata, price_amount_type, price_amount)
     select $1::uuid, ${product('n')}, ${start}, 'Product ' || n, 'public', false, '{}', 'fixed', 1000 from generate_series(0, ${products - 1}) n`,
    [organization_id],
  )
  await owner.query(`insert into collection_deltas values ($1, 'products', ${products})`, [organization_id])
}

/** Drops the indexes of tables before a bulk insert. The returned function rebuilds them, each in one pass. */
export const dropIndexes = async (owner: pg.Client, tables: readonly string[]) => {
  const { rows } = await owner.query<{ name: string; definition: string }>(
    `select c.relname as name, pg_get_indexdef(c.oid) as definition from pg_index i join pg_class c on c.oid = i.indexrelid
     where i.indrelid = any($1::regclass[]) and not exists (select from pg_constraint k where k.conindid = c.oid)`,
    [tables],
  )
  for (const { name } of rows) await owner.query(`drop index ${name}`)
  return async () => {
    for (const { definition } of rows) await owner.query(definition)
  }
}
