import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ServiceQuestion, TaxedSale, TaxReversal } from '../../src/gateways/tax/tax.ts'
import type { openClock } from './world.ts'

/**
 * A fault of the stand-in for one request:
 * - `fail`: answers 500 and records nothing.
 * - `hang`: answers only after `release`.
 * - `lose_answer`: records the request and closes the connection without an answer.
 * - `answer_twice`: sends a second response to the same request, with another tax.
 * - a function: changes the answer of a quote.
 */
export type TaxFault = 'fail' | 'hang' | 'lose_answer' | 'answer_twice' | ((answer: Quoted) => unknown)

interface Share {
  jurisdiction: string
  rate: number
  tax_amount: number
  reason: string
}
export interface Quoted {
  id: string
  fingerprint: string
  expires_at: string
  behavior: string
  lines: { reference: string; taxes: Share[] }[]
}

/** A request that the stand-in has received. */
export interface TaxRequest {
  readonly path: string
  readonly key: string | undefined
  readonly body: ServiceQuestion & TaxedSale & TaxReversal
}

const token = 'tax-service-token'

/** The tax rates of the stand-in, in parts per million, by jurisdiction. */
const ratesOf = ({ address }: ServiceQuestion): [string, number][] => {
  if (address.country === 'US' && address.state === 'NY') {
    return address.city === 'New York'
      ? [
          ['US-NY', 40_000],
          ['US-NY-NYC', 45_000],
        ]
      : [['US-NY', 40_000]]
  }
  return [[address.country, { DE: 190_000, FR: 200_000, CH: 81_000 }[address.country] ?? 0]]
}

/** Opens a tax service on this machine. It keeps its own records, and misbehaves on request. */
export const openTaxStandIn = async (clock: ReturnType<typeof openClock>, { timeout_ms = 20_000 } = {}) => {
  const quotes = new Map<string, ServiceQuestion>()
  const confirmed = new Map<string, TaxedSale>()
  const reversed = new Map<string, Omit<TaxReversal, 'key'>>()
  const requests: TaxRequest[] = []
  let fault: (request: TaxRequest) => TaxFault | undefined = () => undefined
  let lifetime_ms = 3_600_000
  const held = new Set<() => void>()

  const quote = (question: ServiceQuestion): Quoted => {
    const id = `quote_${randomUUID()}`
    quotes.set(id, question)
    const rates = ratesOf(question)
    const all = rates.reduce((sum, [, rate]) => sum + rate, 0)
    const whole = 1_000_000 + (question.behavior === 'inclusive' ? all : 0)
    const reverse = question.tax_id?.format === 'eu_vat'
    return {
      id,
      fingerprint: question.fingerprint,
      expires_at: new Date(clock.wall().getTime() + lifetime_ms).toISOString(),
      behavior: question.behavior,
      lines: question.lines.map(({ reference, amount }) => ({
        reference,
        taxes: rates.map(([jurisdiction, rate]) =>
          reverse
            ? { jurisdiction, rate: 0, tax_amount: 0, reason: 'reverse_charge' }
            : {
                jurisdiction,
                rate,
                tax_amount: Math.sign(amount) * Math.round((Math.abs(amount) * rate) / whole) + 0,
                reason: rate === 0 ? 'not_collecting' : 'standard_rated',
              },
        ),
      })),
    }
  }

  /** Records a report once per key. A second report with the same key and another body is an error of the caller. */
  const record = <T>(books: Map<string, T>, key: string | undefined, body: T): number => {
    if (key === undefined) return 400
    const known = books.get(key)
    if (known !== undefined && JSON.stringify(known) !== JSON.stringify(body)) return 409
    books.set(key, body)
    return 200
  }

  const answer = (request: TaxRequest): { status: number; body: unknown } => {
    const { path, key, body } = request
    if (path === '/tax/confirmations') return { status: quotes.has(body.quote_id) ? record(confirmed, key, body) : 404, body: {} }
    if (path === '/tax/reversals') return { status: [...confirmed.keys()].includes(body.order_id) ? record(reversed, key, body) : 404, body: {} }
    if (path !== '/tax/quotes') return { status: 404, body: {} }
    return body.address.country === 'US' && body.address.state === null ? { status: 422, body: {} } : { status: 200, body: quote(body) }
  }

  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const key = incoming.headers['idempotency-key'] as string | undefined
    const request: TaxRequest = { path: incoming.url!, key, body: JSON.parse(Buffer.concat(chunks).toString()) as TaxRequest['body'] }
    requests.push(request)
    const send = (status: number, body: unknown) => void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (incoming.method !== 'POST' || incoming.headers.authorization !== `Bearer ${token}`) return send(401, {})
    const wrong = fault(request)
    if (wrong === 'fail') return send(500, { error: 'broken' })
    if (wrong === 'hang') await new Promise<void>((resolve) => void held.add(resolve))
    const { status, body } = answer(request)
    if (wrong === 'lose_answer') return void incoming.socket.destroy()
    if (typeof wrong === 'function' && status === 200) {
      const changed = wrong(body as Quoted)
      return typeof changed === 'string' ? void response.writeHead(200).end(changed) : send(200, changed)
    }
    send(status, body)
    if (wrong !== 'answer_twice') return
    const other = JSON.stringify({ ...(body as Quoted), id: 'quote_again', lines: (body as Quoted).lines?.map((line) => ({ ...line, taxes: [] })) })
    incoming.socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(other)}\r\n\r\n${other}`)
  }

  const server = createServer((incoming, response) => void handle(incoming, response).catch(() => response.destroy()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    settings: {
      BURSAR_TAX_URL: `http://127.0.0.1:${port}/tax`,
      BURSAR_TAX_TOKEN: token,
      BURSAR_TAX_TIMEOUT_MS: String(timeout_ms),
      BURSAR_EGRESS_LOOPBACK: 'true',
    },
    /** The records of the service: its quotes by id, confirmations by order, and reversals by key. */
    books: { quotes, confirmed, reversed },
    /** All requests, in the order of their arrival. */
    requests,
    /** The questions that were asked, in the order of their arrival. */
    questions: () => requests.filter(({ path }) => path === '/tax/quotes').map(({ body }) => body),
    misbehave: (next: (request: TaxRequest) => TaxFault | undefined) => void (fault = next),
    behave: () => void (fault = () => undefined),
    /** Sets how long new quotes are valid. */
    quoteFor: (milliseconds: number) => void (lifetime_ms = milliseconds),
    /** Number of requests that hang. */
    hanging: () => held.size,
    /** Answers the requests that hang. */
    release: () => {
      for (const resolve of held) resolve()
      held.clear()
    },
    close: async () => {
      for (const resolve of held) resolve()
      server.closeAllConnections()
      await new Promise((resolve) => void server.close(resolve))
    },
  }
}
export type TaxStandIn = Awaited<ReturnType<typeof openTaxStandIn>>
