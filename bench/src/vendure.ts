import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'

/**
 * Runs Vendure from the folder in which peers.ts has installed it. `load` creates the tables and the products, and ends.
 * `serve` answers requests and prints its port.
 */
const [task, folder, products] = process.argv.slice(2) as ['load' | 'serve', string, string]

type Id = string | number

interface Application {
  readonly get: <T>(service: abstract new () => T) => T
  readonly getHttpServer: () => { address: () => AddressInfo }
  readonly close: () => Promise<void>
}

interface FastImporter {
  readonly initialize: (channel: object) => Promise<void>
  readonly createProduct: (input: object) => Promise<Id>
  readonly createProductVariant: (input: object) => Promise<Id>
}

/** The parts of Vendure that this file uses. Its own types are not installed in the repository. */
interface Vendure {
  readonly bootstrap: (config: object) => Promise<Application>
  readonly DefaultLogger: new (options: { level: number }) => object
  readonly LogLevel: { Error: number }
  readonly Populator: abstract new () => { populateInitialData: (data: object) => Promise<void> }
  readonly ChannelService: abstract new () => { getDefaultChannel: () => Promise<object> }
  readonly FastImporterService: abstract new () => FastImporter
  readonly TransactionalConnection: abstract new () => { rawConnection: { query: <Row = { id: Id }>(text: string) => Promise<Row[]> } }
  readonly DefaultSearchPlugin: { init: (options: object) => object }
  readonly JobQueueService: abstract new () => { start: () => Promise<void> }
  readonly RequestContextService: abstract new () => { create: (options: { apiType: string }) => Promise<object> }
  readonly SearchService: abstract new () => { reindex: (context: object) => Promise<object> }
}

const vendure = createRequire(`${folder}/package.json`)('@vendure/core') as Vendure

const application = await vendure.bootstrap({
  apiOptions: { hostname: '127.0.0.1', port: 0 },
  // In production Vendure refuses to start with its default password.
  authOptions: { tokenMethod: 'bearer', superadminCredentials: { identifier: 'bench', password: randomBytes(16).toString('hex') } },
  dbConnectionOptions: {
    type: 'postgres',
    url: process.env.VENDURE_DATABASE_URL,
    synchronize: task === 'load',
    // Keeps up to 20 connections open. Vendure's default is 10, each closed after ten idle seconds. Bursar also gets 20 here.
    extra: { max: 20, idleTimeoutMillis: 0 },
  },
  paymentOptions: { paymentMethodHandlers: [] },
  // Its table of products answers a page without a query for each product.
  plugins: [vendure.DefaultSearchPlugin.init({})],
  logger: new vendure.DefaultLogger({ level: vendure.LogLevel.Error }),
})

const load = async () => {
  await application.get(vendure.Populator).populateInitialData({
    defaultLanguage: 'en',
    defaultZone: 'Americas',
    countries: [{ code: 'US', name: 'United States of America', zone: 'Americas' }],
    taxRates: [{ name: 'Standard Tax', percentage: 20 }],
    shippingMethods: [],
    paymentMethods: [],
    collections: [],
  })
  const { rawConnection } = application.get(vendure.TransactionalConnection)
  const [category] = await rawConnection.query('select id from tax_category')
  const importer = application.get(vendure.FastImporterService)
  // Without a channel the importer would store a second price for each variant.
  await importer.initialize(await application.get(vendure.ChannelService).getDefaultChannel())
  for (let n = 1; n <= Number(products); n++) {
    const [name, slug] = [`Product ${n}`, `product-${n}`]
    const productId = await importer.createProduct({ enabled: true, translations: [{ languageCode: 'en', name, slug, description: '' }] })
    const variant = { productId, enabled: true, sku: slug, price: 1000, taxCategoryId: category!.id }
    await importer.createProductVariant({ ...variant, translations: [{ languageCode: 'en', name }] })
  }
  await application.get(vendure.JobQueueService).start()
  await application.get(vendure.SearchService).reindex(await application.get(vendure.RequestContextService).create({ apiType: 'admin' }))
  for (const until = performance.now() + 120_000; ;) {
    const [found] = await rawConnection.query<{ count: string }>('select count(*) from search_index_item')
    if (Number(found!.count) === Number(products)) break
    if (performance.now() > until) throw new Error(`Vendure has indexed ${found!.count} of ${products} products after two minutes`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  await rawConnection.query('analyze')
  await application.close()
  // The queue of jobs keeps the process running.
  process.exit(0)
}

if (task === 'load') await load()
else console.log(JSON.stringify({ port: application.getHttpServer().address().port }))
