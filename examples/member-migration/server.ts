// Receives webhooks, accepts those with a valid signature, and lists at / the people with access.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { handle, inside, type Event, type People } from './handler.ts'

const port = Number(process.env.PORT ?? 4320)
const secret = process.env.WEBHOOK_SECRET
if (!secret) throw new Error('Set WEBHOOK_SECRET: README.md says how to get it.')
const key = Buffer.from(secret.replace('whsec_', ''), 'base64')

const people: People = new Map()
/** Processed event ids. Events are delivered at least once, and a repeated one is skipped. */
const seen = new Set<string>()

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const isSigned = ({ headers }: IncomingMessage, body: string): boolean => {
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((name) => String(headers[`webhook-${name}`]))
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300)) return false
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest()
  return signatures!.split(' ').some((one) => {
    const given = Buffer.from(one.replace('v1,', ''), 'base64')
    return given.length === wanted.length && timingSafeEqual(given, wanted)
  })
}

createServer((request, response) => {
  const answer = async () => {
    if (request.method !== 'POST') return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(inside(people)))
    const body = await bodyOf(request)
    if (!isSigned(request, body)) return void response.writeHead(400).end()
    const id = String(request.headers['webhook-id'])
    if (!seen.has(id)) handle(people, JSON.parse(body) as Event)
    seen.add(id)
    response.writeHead(204).end()
  }
  answer().catch((error: unknown) => {
    console.error(error)
    response.writeHead(500).end()
  })
}).listen(port, '127.0.0.1', () => console.log(`listening at http://127.0.0.1:${port}`))
