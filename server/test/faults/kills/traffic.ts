import { confirmClientCheckout, createCheckout, listOrders, listSubscriptions, type Operation } from '@bursar/contract'
import { connect, Refused } from '@bursar/contract/client'
import { exchange } from '../../harness/world.ts'
import type { Crew } from './crew.ts'

const pause = (milliseconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, milliseconds))

/** Sends a trickle of ordinary requests: lists, and purchases that are retried with the same idempotency key until answered. */
export const openTraffic = (crew: Crew, token: string, product_id: string) => {
  const figures = { reads: 0, purchases: 0, repeated: 0, reasons: new Map<string, number>(), problems: [] as string[] }
  const life = { ending: false }
  const client = connect(
    async (request) => {
      const port = crew.port()
      if (port === undefined) throw new Error('nobody listens')
      return exchange(port, request.method, request.url, request.headers, request.body)
    },
    { authorization: `Bearer ${token}` },
  )
  /** Retries until the request is answered. Records a refusal that no retry can change as a problem. */
  const insist = async <T>(what: Operation['id'], ask: () => Promise<T>): Promise<T | undefined> => {
    for (let attempt = 0; attempt < 600; attempt++) {
      try {
        return await ask()
      } catch (error) {
        figures.repeated++
        const reason = (error as Error).message.slice(0, 200)
        figures.reasons.set(reason, (figures.reasons.get(reason) ?? 0) + 1)
        const status = error instanceof Refused ? error.reply.status : 0
        if (status >= 400 && status < 500 && status !== 409 && status !== 429) {
          figures.problems.push(`${what}: ${(error as Error).message}`)
          return undefined
        }
        await pause(200)
      }
    }
    figures.problems.push(`${what} is never answered`)
    return undefined
  }
  const buy = async (at: number) => {
    const key = (step: string) => ({ headers: { 'idempotency-key': `buy-${at}-${step}` } })
    const checkout = await insist('checkouts:create', () => client.call(createCheckout, { body: { products: [product_id] }, ...key('open') }))
    if (!checkout) return
    const body = {
      customer_email: `buyer-${at}@people.test`,
      customer_billing_address: { country: 'DE' as const },
      confirmation_token_id: `tok_visa:buyer${at}`,
    }
    const done = await insist('checkouts:client_confirm', () =>
      client.call(confirmClientCheckout, { params: { client_secret: checkout.client_secret }, body, ...key('confirm') }),
    )
    if (done) figures.purchases++
  }
  const running = Promise.all([
    (async () => {
      for (let at = 0; !life.ending; at++) {
        await insist<unknown>('lists', () =>
          at % 2 === 0 ? client.call(listOrders, { query: { limit: 5 } }) : client.call(listSubscriptions, { query: { limit: 5 } }),
        )
        figures.reads++
        await pause(150)
      }
    })(),
    (async () => {
      for (let at = 0; !life.ending; at++) {
        await buy(at)
        await pause(300)
      }
    })(),
  ])
  return {
    figures,
    /** Starts no new requests, and finishes the pending ones. */
    end: async () => {
      life.ending = true
      await running
    },
  }
}
