import assert from 'node:assert'
import type { PoolClient } from 'pg'
import { openPool } from '../../server/src/platform/postgres/postgres.ts'
import type { World } from '../../server/test/harness/world.ts'
import { alternate, compare, sendLoad, median, quotients, startSide } from './measuring.ts'
import { options } from './options.ts'
import { makeOrders } from './orders.ts'
import type { Outcome } from './results.ts'

export const tokenOf = async (organization: Awaited<ReturnType<World['organization']>>) => (await organization.token()).secret.reveal()

export const makeProducts = (world: World, organization_id: string, count: number) =>
  world.database.owner(async (owner) => {
    await owner.query(
      `insert into products (organization_id, id, created_at, name, visibility, is_archived, metadata, price_amount_type, price_amount)
       select $1, gen_random_uuid(), now() - n * interval '1 second', 'Product ' || n, 'public', false, '{"plan": "pro"}', 'fixed', 1000 from generate_series(1, $2) n`,
      [organization_id, count],
    )
    await owner.query(
      `insert into product_prices (organization_id, id, product_id, position, created_at, source, amount_type, price_currency, is_archived, price_amount)
       select organization_id, gen_random_uuid(), id, 0, created_at, 'catalog', 'fixed', 'usd', false, 1000 from products where organization_id = $1 order by created_at desc limit 1000`,
      [organization_id],
    )
    await owner.query('analyze')
  })

/** Measures the API against the hand-written handlers of `bare.ts`, on the same rows. */
export const list = async (world: World): Promise<Record<string, Outcome>> => {
  const shop = await world.organization()
  await makeProducts(world, shop.id, 1000)
  return { list: { ...(await beside(world, '/v1/products/?limit=10', await tokenOf(shop))), rows: 1000 } }
}

export const listOrders = async (world: World): Promise<Record<string, Outcome>> => {
  const shop = await world.organization()
  await makeOrders(world, shop.id, 0, 1000)
  return { 'list-orders': { ...(await beside(world, '/v1/orders/?limit=10', await tokenOf(shop))), rows: 1000 } }
}

export const get = async (world: World): Promise<Record<string, Outcome>> => {
  const shop = await world.organization()
  await makeProducts(world, shop.id, 1000)
  const { rows } = await world.database.owner((owner) =>
    owner.query<{ id: string }>('select id from products where organization_id = $1 order by created_at desc limit 1', [shop.id]),
  )
  return { get: { ...(await beside(world, `/v1/products/${rows[0]!.id}`, await tokenOf(shop))), rows: 1000 } }
}

export const create = async (world: World): Promise<Record<string, Outcome>> => {
  const shop = await world.organization()
  const body = JSON.stringify({ email: 'buyer-{n}@people.test', name: 'A buyer', external_id: 'b-{n}' })
  return { create: await compare(world, 'product', 'bare', '/v1/customers/', await tokenOf(shop), body) }
}

/** Measures what many rows cost: the first page, and the last one. */
export const sizeOfOrders = async (world: World): Promise<Record<string, Outcome>> => {
  const [small, large] = [await world.organization(), await world.organization()]
  await makeOrders(world, small.id, 0, 1000)
  await makeOrders(world, large.id, 0, options.rows)
  return {
    'list-orders-size': await bySize(world, '/v1/orders/?limit=20', await tokenOf(small), await tokenOf(large)),
    'list-orders-deep': await deep(world, large.id, await tokenOf(large)),
  }
}

export const size = async (world: World): Promise<Record<string, Outcome>> => {
  const [small, large] = [await world.organization(), await world.organization()]
  await makeProducts(world, small.id, 1000)
  await makeProducts(world, large.id, options.rows)
  return { size: await bySize(world, '/v1/products/?limit=20', await tokenOf(small), await tokenOf(large)) }
}

/** Compares the product with the hand-written handler, after checking that both send the same body. */
const beside = async (world: World, path: string, token: string): Promise<Outcome> => {
  const answers: unknown[] = []
  for (const side of ['product', 'bare']) {
    const { port, child } = await startSide(world, side)
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } })
    answers.push(await answer.json())
    child.kill()
  }
  assert.deepStrictEqual(answers[1], answers[0], `the hand-written handler answers ${path} differently`)
  return compare(world, 'product', 'bare', path, token)
}

const bySize = async (world: World, path: string, small: string, large: string): Promise<Outcome> => {
  const { port, child } = await startSide(world, 'product')
  const p50 = (token: string) => async () => (await sendLoad(port, path, token, { connections: 4 })).p50
  const [few, many] = await alternate([p50(small), p50(large)])
  child.kill()
  return {
    ratio: median(many) / median(few),
    ratios: quotients(many, few),
    figures: [
      { what: '1,000 rows', value: median(few), unit: ' ms' },
      { what: `${options.rows.toLocaleString('en')} rows`, value: median(many), unit: ' ms' },
    ],
    rows: options.rows,
    rounds: options.rounds,
  }
}

/** Returns the statement that finds a page. Its values are the tenant, the page size plus one, and the offset. */
const keysOf = (table: string) =>
  `select organization_id as tenant, created_at as k0, id as k1 from ${table} where organization_id = $1::uuid and true order by created_at desc, id desc limit $2 offset $3`

/**
 * Measures the last page of a list of a million rows over HTTP (page 50,000, at 20 rows a page). Compares with the
 * single statement that finds the keys of this page.
 */
const deep = async (world: World, organization_id: string, token: string): Promise<Outcome> => {
  const last = Math.floor(options.rows / 20)
  const { port, child } = await startSide(world, 'product')
  const pool = openPool(world.config.database_url, 'bursar_api', { max: 1, log: world.base.log, readOnly: true })
  const statement = async () => {
    const times: number[] = []
    for (const until = performance.now() + options.seconds * 1000; performance.now() < until;) {
      const began = performance.now()
      const { rows } = await pool.query(keysOf('orders'), [organization_id, 21, (last - 1) * 20])
      times.push(performance.now() - began)
      if (rows.length !== 20) throw new Error(`the last page has ${rows.length} rows`)
    }
    return median(times)
  }
  const answer = async () => (await sendLoad(port, `/v1/orders/?limit=20&page=${last}`, token, { connections: 1 })).p50
  const [ours, theirs] = await alternate([answer, statement])
  await pool.end()
  child.kill()
  return {
    ratio: median(ours) / median(theirs),
    ratios: quotients(ours, theirs),
    figures: [
      { what: `page ${last.toLocaleString('en')}`, value: median(ours), unit: ' ms' },
      { what: 'its statement', value: median(theirs), unit: ' ms' },
    ],
    rows: options.rows,
    rounds: options.rounds,
  }
}

/**
 * Measures the cost of row-level security as a second tenant check. The product does not use it if it costs more than a
 * tenth of list throughput: docs/decisions/0009.
 */
export const rls = async (world: World): Promise<Record<string, Outcome>> => {
  const organization = await world.organization()
  await makeProducts(world, organization.id, 1000)
  await world.database.owner((owner) =>
    owner.query(`
      create table walled (like products including all);
      insert into walled select * from products;
      alter table walled enable row level security;
      create policy tenant on walled using (organization_id = any (string_to_array(current_setting('bursar.reach', true), ',')::uuid[]));
      grant select on walled to bursar_api;
      analyze walled;`),
  )
  const pool = openPool(world.config.database_url, 'bursar_api', { max: 8, log: world.base.log })
  const page = (table: string) => `select * from ${table} where organization_id = '${organization.id}' order by created_at desc, id desc limit 20`
  const plain = async (client: PoolClient) => client.query(page('products'))
  // Row-level security needs the tenant scope in each transaction. All statements are sent in one round trip, which is
  // the cheapest way to set it.
  const walled = async (client: PoolClient) =>
    client.query(`begin read only; select set_config('bursar.reach', '${organization.id}', true); ${page('walled')}; commit`)
  const rate = (work: (client: PoolClient) => Promise<unknown>) => async () => {
    const until = performance.now() + options.seconds * 1000
    const done = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const client = await pool.connect()
        let count = 0
        for (; performance.now() < until; count++) await work(client)
        client.release()
        return count
      }),
    )
    return done.reduce((sum, count) => sum + count, 0) / options.seconds
  }
  const [behind, without] = await alternate([rate(walled), rate(plain)])
  await pool.end()
  return {
    rls: {
      ratio: median(behind) / median(without),
      ratios: quotients(behind, without),
      figures: [
        { what: 'with row-level security', value: median(behind), unit: '/s' },
        { what: 'without', value: median(without), unit: '/s' },
      ],
      rows: 1000,
      rounds: options.rounds,
    },
  }
}
