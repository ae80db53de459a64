import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import {
  createCustomer,
  createMember,
  createProduct,
  deleteCustomer,
  deleteMember,
  listEvents,
  listOrganizations,
  updateCustomer,
  updateMember,
  updateOrganization,
  updateProduct,
  webhookKinds,
  type WebhookEventType,
} from '@bursar/contract'
import { Refused, type Client } from '@bursar/contract/client'
import { newWebhookSecret, randomText, readToken, Secret } from '../kernel/secrets.ts'
import { sign, signingKeys } from '../modules/webhooks/index.ts'
import { seconds, stopwatch, systemClock } from '../platform/clock.ts'
import { apiOf, tokenOf, type Door } from './door.ts'
import { connectTo, send } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  events?: string | undefined
  after?: string | undefined
  json?: boolean | undefined
  'print-secret'?: boolean | undefined
}

const folder = '.bursar'
const secretFile = `${folder}/listen-secret`

/**
 * Returns the secret with which `listen` signs forwarded events on this machine. The secret is created once, so that
 * the receiving server need not be reconfigured.
 */
const localSecret = (): Secret => {
  if (existsSync(secretFile)) return new Secret(readFileSync(secretFile, 'utf8').trim())
  const secret = newWebhookSecret()
  mkdirSync(folder, { recursive: true })
  writeFileSync(secretFile, `${secret.reveal()}\n`, { mode: 0o600 })
  return secret
}

const say = (line: string) => void process.stdout.write(`${line}\n`)
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))
const clockOf = (date: Date) => date.toISOString().slice(11, 19)

/**
 * Forwards events to a local server as they occur, in order and signed like webhooks. While the API or the local server
 * is unavailable, waits and skips no event.
 */
export const listen = async ([url]: readonly string[], values: Values): Promise<void> => {
  const secret = localSecret()
  if (values['print-secret']) return say(secret.reveal())
  if (!url || !URL.canParse(url)) throw new Usage('give the address to forward events to, for example: bursar listen http://localhost:3000/hooks')
  const kinds = readKinds(values.events)
  const api = open(values)
  const keys = signingKeys(secret)
  let after = values.after === undefined ? (await api.call(listEvents, { query: { limit: '1' } })).head_sequence : Number(values.after)
  if (!Number.isSafeInteger(after) || after < 0) throw new Usage('--after takes the sequence number of an event')
  if (!values.json) say(`listening after event ${after}, forwarding to ${url}\nsecret: bursar listen --print-secret\n`)
  for (;;) {
    const log = await patiently('the API', values, () => api.call(listEvents, { query: { after: String(after), wait: '25', type: kinds } }))
    for (const event of log.items) {
      if (event.payload !== null) {
        const { payload } = event
        const outcome = await patiently(url, values, async () => {
          const timestamp = Math.floor(systemClock.wall().getTime() / 1000)
          const elapsed = stopwatch()
          const { status } = await send('POST', url, payload, {
            'content-type': 'application/json',
            'webhook-id': event.id,
            'webhook-timestamp': String(timestamp),
            'webhook-signature': sign(keys, event.id, timestamp, payload),
            'bursar-sequence': String(event.sequence),
          })
          return { status, ms: Math.round(elapsed()) }
        })
        if (values.json) say(JSON.stringify({ sequence: event.sequence, id: event.id, type: event.type, ...outcome }))
        else say(`${clockOf(systemClock.wall())}  ${outcome.status}  ${String(outcome.ms).padStart(5)} ms  #${event.sequence}  ${event.type}  ${event.id}`)
      }
      after = event.sequence
    }
    after = Math.max(after, log.last_sequence)
  }
}

/** Retries a call until it succeeds, and prints one line when the retries begin. A 4xx response other than 429 is not retried. */
const patiently = async <T>(whom: string, values: Values, work: () => Promise<T>): Promise<T> => {
  for (let tries = 0; ; tries++)
    try {
      return await work()
    } catch (error) {
      if (error instanceof Refused && error.reply.status < 500 && error.reply.status !== 429) throw error
      if (tries === 0 && !values.json) say(`waiting for ${whom} (${(error as { code?: string }).code ?? (error as Error).message})`)
      await pause(1 * seconds)
    }
}

const readKinds = (text: string | undefined): WebhookEventType[] => {
  const kinds = text?.split(',') ?? []
  const unknown = kinds.find((kind) => !(webhookKinds as readonly string[]).includes(kind))
  if (unknown !== undefined) throw new Usage(`there is no event type ${unknown}; available: ${webhookKinds.join(', ')}`)
  return kinds as WebhookEventType[]
}

/** For each event type: the API calls that cause such an event. */
const deeds: Partial<Record<WebhookEventType, (api: Client) => Promise<string>>> = {
  'organization.updated': async (api) => {
    const [organization] = (await api.call(listOrganizations, {})).items
    return (await api.call(updateOrganization, { params: { id: organization!.id }, body: {} })).id
  },
  'product.created': async (api) => (await product(api)).id,
  'product.updated': async (api) => {
    const { id } = await product(api)
    return (await api.call(updateProduct, { params: { id }, body: { name: `Renamed ${word()}` } })).id
  },
  'customer.created': async (api) => (await team(api)).id,
  'customer.updated': async (api) => {
    const { id } = await team(api)
    return (await api.call(updateCustomer, { params: { id }, body: { name: `Renamed ${word()}` } })).id
  },
  'customer.deleted': async (api) => {
    const { id } = await team(api)
    await api.call(deleteCustomer, { params: { id } })
    return id
  },
  'member.created': async (api) => (await member(api)).id,
  'member.updated': async (api) => {
    const { id, customer_id } = await member(api)
    return (await api.call(updateMember, { params: { id: customer_id, member_id: id }, body: { name: `Renamed ${word()}` } })).id
  },
  'member.deleted': async (api) => {
    const { id, customer_id } = await member(api)
    await api.call(deleteMember, { params: { id: customer_id, member_id: id } })
    return id
  },
}

const word = () => randomText(6, 'abcdefghijklmnopqrstuvwxyz')
const product = (api: Client) => api.call(createProduct, { body: { name: `Triggered ${word()}`, prices: [{ amount_type: 'fixed', price_amount: 1000 }] } })
const team = (api: Client) => api.call(createCustomer, { body: { type: 'team', name: `Triggered ${word()}`, email: `${word()}@example.com` } })
const member = async (api: Client) => api.call(createMember, { params: { id: (await team(api)).id }, body: { email: `${word()}@example.com` } })

/** Causes a real event of a type by making the change that emits it. Sandbox only. */
export const trigger = async ([kind]: readonly string[], values: Values): Promise<void> => {
  const deed = deeds[kind as WebhookEventType]
  if (!deed) throw new Usage(`give an event type to trigger: ${Object.keys(deeds).join(', ')}`)
  const reading = readToken(tokenOf(values))
  if (typeof reading === 'string' || reading.environment !== 'sandbox') throw new Usage('trigger needs a token of the sandbox: it creates test data')
  const id = await deed(open(values))
  say(values.json ? JSON.stringify({ type: kind, resource_id: id }) : `${kind} ${id}`)
}

const open = (values: Values): Client => connectTo(apiOf(values), tokenOf(values))
