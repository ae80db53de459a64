import { createCustomer, createWebhookEndpoint } from '@bursar/contract'
import { createProduct } from '../../../src/modules/catalog/index.ts'
import { createUser } from '../../../src/modules/identity/index.ts'
import { within } from '../../../src/kernel/actors.ts'
import { fairStopwatch } from '../../harness/fair.ts'
import type { Sink } from '../../harness/sink.ts'
import type { World } from '../../harness/world.ts'
import { send, type Address, type Reply } from './requests.ts'

/** The ordinary things that the bystander does, and the milliseconds that each took. */
export const chores = ['read', 'write', 'mail', 'webhook'] as const
export type Chore = (typeof chores)[number]
export type Delays = Record<Chore, number[]>

/** A delay that is not over after this time counts as this time. */
const longest = 20_000
/** Milliseconds between two rounds of the bystander. A late round does not delay the next one. */
const every = 400

const emailOf = (number: number) => `bystander-${number}@people.test`

/** Returns the 95th percentile. */
export const p95 = (delays: readonly number[]): number => delays.toSorted((a, b) => a - b)[Math.ceil(delays.length * 0.95) - 1]!

/**
 * Opens a bystander: an organization with a product and a webhook endpoint. In each round it reads the product, creates a
 * customer, waits for the webhook of that customer, and waits for a sign-in mail of a new person.
 */
export const openBystander = async (world: World, sink: Sink, api: Address) => {
  const shop = await world.shop()
  const { id: organization_id } = shop.organization
  const { product } = await world.transact((tx) =>
    createProduct(tx, within(organization_id, 'machine', 'phase2'), {
      name: 'Ordinary',
      visibility: 'public',
      prices: [{ amount_type: 'fixed', price_currency: 'usd', price_amount: 1000 }],
    }),
  )
  await shop.api.call(createWebhookEndpoint, { body: { url: sink.url('/bystander'), format: 'raw', events: ['customer.created'] } })
  const token = { authorization: `Bearer ${(await shop.organization.token()).secret.reveal()}` }

  /** The webhooks of customers. A webhook may arrive before the answer to the request that created its customer. */
  const arrivals = new Map<string, ReturnType<typeof Promise.withResolvers<undefined>>>()
  const arrivalOf = (id: string) => {
    const found = arrivals.get(id) ?? Promise.withResolvers<undefined>()
    arrivals.set(id, found)
    return found
  }
  sink.each(({ path, body }) => {
    if (path !== '/bystander') return
    const { data } = JSON.parse(body) as { data: { id: string } }
    arrivalOf(data.id).resolve(undefined)
  })

  const refusals: number[] = []
  let serial = 0
  /** Measures one delay. A request that is answered with another status counts as the longest delay. */
  const timed = async (delays: number[], work: () => Promise<number | undefined>): Promise<void> => {
    const elapsed = fairStopwatch()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), longest)
    })
    const wrong = await Promise.race([work(), late])
    clearTimeout(timer)
    if (wrong !== undefined) refusals.push(wrong)
    delays.push(wrong === undefined ? elapsed() : longest)
  }
  /** Returns the status of an answer if it is not the wanted one. */
  const unless = (wanted: number, { status }: Reply): number | undefined => (status === wanted ? undefined : status)
  const round = async (delays: Delays): Promise<void> => {
    const number = serial++
    const email = emailOf(number)
    // Each person signs in from another network, because each network has its own rate limit.
    const from = { 'x-forwarded-for': `10.${(number >> 8) & 255}.${number & 255}.1` }
    await Promise.all([
      timed(delays.read, async () => unless(200, await send(api, { method: 'GET', path: `/v1/products/${product.id}`, headers: token }))),
      (async () => {
        let id = ''
        await timed(delays.write, async () => {
          const answer = await send(api, { method: createCustomer.method, path: createCustomer.path, headers: token, body: { email } })
          ;({ id = '' } = JSON.parse(answer.text) as { id?: string })
          return unless(201, answer)
        })
        await timed(delays.webhook, () => arrivalOf(id).promise)
      })(),
      timed(delays.mail, async () => {
        const wrong = unless(202, await send(api, { method: 'POST', path: '/v1/auth/email-otp', headers: from, body: { email } }))
        if (wrong === undefined) await world.mail.next(email)
        return wrong
      }),
    ])
  }
  return {
    /** The unexpected statuses that the bystander got since the last call. */
    refusals: () => refusals.splice(0),
    /** Runs rounds for this many seconds, and returns all delays. */
    watch: async (seconds: number): Promise<Delays> => {
      const delays: Delays = { read: [], write: [], mail: [], webhook: [] }
      const rounds: Promise<void>[] = []
      const count = Math.ceil((seconds * 1000) / every)
      // Only people who have an account get a sign-in mail.
      await world.transact(async (tx) => {
        for (let at = 0; at < count; at++) await createUser(tx, { email: emailOf(serial + at), is_operator: false })
      })
      for (let at = 0; at < count; at++) {
        rounds.push(round(delays))
        await new Promise((resolve) => setTimeout(resolve, every))
      }
      await Promise.all(rounds)
      return delays
    },
  }
}
export type Bystander = Awaited<ReturnType<typeof openBystander>>
