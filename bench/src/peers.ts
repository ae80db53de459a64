import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomText } from '../../server/src/kernel/secrets.ts'
import { asOwner, urlOf } from '../../server/test/harness/database.ts'
import type { World } from '../../server/test/harness/world.ts'
import { cpuOf, databaseCpu } from './cpu.ts'
import { makeProducts, tokenOf } from './lists.ts'
import { alternate, median, quotients, run, sendLoad, startListening, startSide, type Listening } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

/**
 * The package.json of the temporary folder in which Vendure is installed. Vendure is not a dependency of this project:
 * it is in no package.json and no lockfile of the repository.
 */
const manifest = {
  private: true,
  dependencies: { '@vendure/core': '3.7.3', pg: '8.23.1' },
  // Vendure's dependencies ask for a newer version that could not be installed. Vendure uses the package only while it starts.
  overrides: { '@graphql-tools/batch-execute': '10.2.0' },
}
const version = manifest.dependencies['@vendure/core']

const products = 1000

/** A server with its products, and the request for the same page of 10 products. */
interface Side extends Listening {
  readonly name: string
  readonly database: string
  readonly path: string
  readonly token: string
  readonly body?: string
  readonly read: (answer: unknown) => Page
}

interface Page {
  readonly total: number
  readonly prices: readonly unknown[]
}

interface Round {
  readonly per_second: number
  /** CPU milliseconds per request. */
  readonly api: number
  readonly database: number
}

/** Compares pages of products with Vendure in requests per second. Also measures CPU per request of both servers and their databases. */
export const peers = async (world: World): Promise<Record<string, Outcome>> => {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-bench-vendure-'))
  // The prefix lets a later run drop the database if this run is interrupted.
  const database = `bursar_t_${process.env.BURSAR_TEST_RUN}_${randomText(10, 'abcdefghijklmnopqrstuvwxyz')}`
  const sides: Side[] = []
  try {
    await timed(`install Vendure ${version} in ${folder}`, () => install(folder))
    await timed(`load ${products.toLocaleString('en')} products into Vendure`, () => loadVendure(folder, database))
    sides.push(await timed('start Vendure', () => openVendure(folder, database)))
    sides.push(await timed('load the products into Bursar and start it', () => openBursar(world)))
    const [vendure, bursar] = sides as [Side, Side]
    const search = searching(vendure)
    for (const side of [...sides, search]) await checkPage(side)
    await timed('warm up', () => warmUp([...sides, search]))
    return {
      peers: await timed('measure the list of products', () => compareSides(bursar, vendure)),
      'peers-search': await timed("measure Vendure's search", () => compareSides(bursar, search)),
    }
  } finally {
    for (const { child } of sides) child.kill()
    await asOwner('postgres', (client) => client.query(`drop database if exists ${database} with (force)`))
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Prints a step and how long it took. */
const timed = async <T>(step: string, work: () => Promise<T>): Promise<T> => {
  console.log(`  ${step} …`)
  const began = performance.now()
  const result = await work()
  console.log(`    done in ${Math.round((performance.now() - began) / 1000)} s`)
  return result
}

const install = async (folder: string) => {
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline'], { cwd: folder })
}

/** Environment of Vendure in production, without the figures that it sends to its maker. */
const environment = (database: string) => ({ NODE_ENV: 'production', VENDURE_DISABLE_TELEMETRY: 'true', VENDURE_DATABASE_URL: urlOf(database) })

const loadVendure = async (folder: string, database: string) => {
  await asOwner('postgres', async (client) => {
    await client.query(`create database ${database}`)
    // The login of Bursar in tests has the same setting.
    await client.query(`alter database ${database} set synchronous_commit to off`)
  })
  await run(process.execPath, [new URL('vendure.ts', import.meta.url).pathname, 'load', folder, String(products)], {
    env: { PATH: process.env.PATH, ...environment(database) },
  })
}

const openVendure = async (folder: string, database: string): Promise<Side> => ({
  ...(await startListening(['vendure.ts', 'serve', folder], environment(database))),
  name: 'Vendure',
  database,
  path: '/shop-api',
  // The shop API needs no credential.
  token: '',
  body: JSON.stringify({
    query: `{
      products(options: { take: 10, skip: 0, sort: { createdAt: DESC } }) {
        totalItems
        items { id name slug description createdAt updatedAt variants { id name price priceWithTax currencyCode } }
      }
    }`.replace(/\s+/g, ' '),
  }),
  read: (answer) => {
    const { totalItems, items } = (answer as { data: { products: { totalItems: number; items: { variants: { price: number }[] }[] } } }).data.products
    return { total: totalItems, prices: items.map(({ variants }) => variants[0]?.price) }
  },
})

/** The same server, asked by its search index. It is faster there, and the answer has one price for each product instead of its variants. */
const searching = (vendure: Side): Side => ({
  ...vendure,
  name: "Vendure's search",
  body: JSON.stringify({
    query: `{
      search(input: { groupByProduct: true, take: 10, skip: 0, sort: { name: ASC } }) {
        totalItems
        items { productId productName slug description productVariantId productVariantName currencyCode
          price { ... on PriceRange { min max } ... on SinglePrice { value } } priceWithTax { ... on PriceRange { min max } ... on SinglePrice { value } } }
      }
    }`.replace(/\s+/g, ' '),
  }),
  read: (answer) => {
    const { totalItems, items } = (answer as { data: { search: { totalItems: number; items: { price: { min?: number; value?: number } }[] } } }).data.search
    return { total: totalItems, prices: items.map(({ price }) => price.min ?? price.value) }
  },
})

const openBursar = async (world: World): Promise<Side> => {
  const organization = await world.organization()
  await makeProducts(world, organization.id, products)
  return {
    ...(await startSide(world, 'product')),
    name: 'Bursar',
    database: world.database.name,
    path: '/v1/products/?limit=10',
    token: await tokenOf(organization),
    read: (answer) => {
      const { pagination, items } = answer as { pagination: { total_count: number }; items: { prices: { price_amount: number }[] }[] }
      return { total: pagination.total_count, prices: items.map(({ prices }) => prices[0]?.price_amount) }
    },
  }
}

/** Throws unless the answer has 10 products, their prices and the total. */
const checkPage = async ({ name, port, path, token, body, read }: Side) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: token === '' ? { 'content-type': 'application/json' } : { authorization: `Bearer ${token}` },
    ...(body === undefined ? {} : { method: 'POST', body }),
  })
  const text = await answer.text()
  const { total, prices } = read(JSON.parse(text))
  if (total !== products || prices.length !== 10 || prices.some((price) => price !== 1000)) throw new Error(`${name} answers ${answer.status} ${text}`)
}

/**
 * Sends load for the duration of five rounds to each server, so that Node has compiled its code before the first round.
 * Vendure answers few requests in a round, so one round would not be enough. Also opens the database connections.
 */
const warmUp = async (sides: readonly Side[]) => {
  for (const { port, path, token, body } of sides) await sendLoad(port, path, token, { seconds: 5 * options.seconds, ...(body === undefined ? {} : { body }) })
}

const compareSides = async (bursar: Side, vendure: Side): Promise<Outcome> => {
  const [ours, theirs] = await alternate([() => measureRound(bursar), () => measureRound(vendure)])
  const rates = (rounds: readonly Round[]) => rounds.map(({ per_second }) => per_second)
  const figures = (name: string, rounds: readonly Round[]) => [
    { what: name, value: median(rates(rounds)), unit: ' requests/s' },
    { what: `${name}, CPU of the API per request`, value: median(rounds.map(({ api }) => api)), unit: ' ms' },
    { what: `${name}, CPU of the database per request`, value: median(rounds.map(({ database }) => database)), unit: ' ms' },
  ]
  return {
    ratio: median(rates(ours)) / median(rates(theirs)),
    ratios: quotients(rates(ours), rates(theirs)),
    figures: [...figures('Bursar', ours), ...figures(vendure.name, theirs)],
    rows: products,
    rounds: options.rounds,
  }
}

const measureRound = async ({ name, child, database, port, path, token, body }: Side): Promise<Round> => {
  const used = () => ({ api: cpuOf(child.pid!), database: databaseCpu(database) })
  const before = used()
  const { per_second, answers } = await sendLoad(port, path, token, body === undefined ? {} : { body })
  const after = used()
  const round = { per_second, api: (after.api - before.api) / answers, database: (after.database - before.database) / answers }
  console.log(`    ${name}: ${per_second.toFixed(1)} requests/s, CPU per request: API ${round.api.toFixed(2)} ms, database ${round.database.toFixed(2)} ms`)
  return round
}
