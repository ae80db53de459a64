import {
  createCheckout,
  createCustomer,
  createCustomerSession,
  createProduct,
  createWebhookEndpoint,
  listCustomers,
  listOrganizations,
  listProducts,
  listWebhookEndpoints,
  revealWebhookSecret,
  scopes as everyScope,
  updateWebhookEndpoint,
  contractKinds,
} from '@bursar/contract'
import type { Client, Input } from '@bursar/contract/client'
import { Secret } from '../kernel/secrets.ts'
import { issueOrganizationToken } from '../modules/identity/index.ts'
import { findLivingOrganization } from '../modules/organizations/index.ts'
import type { Config } from '../platform/config.ts'
import { acmeOwner, createAcme } from './commands.ts'
import { withDatabase } from './database.ts'
import type { Receiver } from './receiver.ts'
import { connectTo } from './send.ts'

const endpointName = 'bursar dev'

interface SandboxSeed {
  readonly config: Config
  /** The local address of the server. */
  readonly local: string
  /** The access token of the previous start. A token that no longer works is replaced. */
  readonly token: string | undefined
  readonly receiver: Receiver
}

/** Creates the missing sample data of the sandbox. Existing data is not changed. */
export const seedSandbox = async ({ config, local, token: known, receiver }: SandboxSeed) => {
  const base = config.public_url.href.replace(/\/$/, '')
  const token = known !== undefined && (await works(connectTo(local, known))) ? known : await issueToken(config)
  const api = connectTo(local, token)
  const [organization] = (await api.call(listOrganizations, { query: { slug: 'acme' } })).items
  const { endpoint_id, secret } = await attach(api, receiver)
  const product = await offer(api, { name: 'Field guide', prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 2900 }] })
  const plan = await offer(api, {
    name: 'Team plan',
    recurring_interval: 'month',
    prices: [
      {
        amount_type: 'seat_based',
        price_currency: 'usd',
        seat_tiers: {
          seat_tier_type: 'graduated',
          tiers: [
            { min_seats: 1, max_seats: 10, price_per_seat: 1200 },
            { min_seats: 11, max_seats: null, price_per_seat: 900 },
          ],
        },
      },
    ],
  })
  const checkout = await open(api, product)
  const team_checkout = await open(api, plan, { seats: 5 })
  const portal = await enter(api)
  return {
    api: base,
    token,
    organization_id: organization!.id,
    owner: acmeOwner,
    products: { field_guide: product, team_plan: plan },
    checkout,
    team_checkout,
    portal,
    webhook: { endpoint_id, secret, receiver: receiver.url },
    dashboard: `${base}/dashboard/acme`,
    mailbox: `${base}/mailbox`,
  }
}
export type Made = Awaited<ReturnType<typeof seedSandbox>>

const works = async (api: Client): Promise<boolean> => (await api.send(listOrganizations, { query: { slug: 'acme' } })).status === 200

/** Issues a token with all scopes for the organization acme, which is created if missing. */
const issueToken = (config: Config): Promise<string> =>
  withDatabase(
    'dev',
    async ({ db, transact, platform }) => {
      const there = await findLivingOrganization(db, { slug: 'acme' })
      const { secret } = await transact(async (tx) => {
        const organization = there ?? (await createAcme(tx))
        return issueOrganizationToken(tx, platform, organization.id, { comment: 'bursar dev', scopes: everyScope, expires_in: null })
      })
      return secret.reveal()
    },
    config,
  )

/** Creates a webhook endpoint for the sandbox's receiver. Later starts reuse the endpoint, so that its secret stays the same. */
const attach = async (api: Client, receiver: Receiver): Promise<{ endpoint_id: string; secret: string }> => {
  const there = (await api.call(listWebhookEndpoints, { query: { limit: '100' } })).items.find(({ name }) => name === endpointName)
  if (there && there.url !== receiver.url) await api.call(updateWebhookEndpoint, { params: { id: there.id }, body: { url: receiver.url } })
  const { id, secret } = there
    ? await api.call(revealWebhookSecret, { params: { id: there.id } })
    : await api.call(createWebhookEndpoint, { body: { url: receiver.url, name: endpointName, format: 'raw', events: [...contractKinds] } })
  receiver.trust(new Secret(secret))
  return { endpoint_id: id, secret }
}

const offer = async (api: Client, product: Input<typeof createProduct>['body']): Promise<string> => {
  const { items } = await api.call(listProducts, { query: { query: product.name, is_archived: 'false' } })
  return (items.find(({ name }) => name === product.name) ?? (await api.call(createProduct, { body: product }))).id
}

/** Creates a sample checkout. */
const open = async (api: Client, product: string, more: { seats?: number } = {}): Promise<{ id: string; client_secret: string; url: string }> => {
  const { id, client_secret, url } = await api.call(createCheckout, { body: { products: [product], ...more } })
  return { id, client_secret, url }
}

/** Creates a sample customer if it is missing, and a portal link for it. The link works once. */
const enter = async (api: Client): Promise<{ customer_id: string; email: string; url: string }> => {
  const email = 'ada@example.com'
  const [there] = (await api.call(listCustomers, { query: { email } })).items
  const { id } = there ?? (await api.call(createCustomer, { body: { email, name: 'Ada Lovelace' } }))
  const { customer_portal_url } = await api.call(createCustomerSession, { body: { customer_id: id } })
  return { customer_id: id, email, url: customer_portal_url }
}
