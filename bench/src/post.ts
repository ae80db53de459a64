import { createHmac } from 'node:crypto'
import { Agent, request } from 'node:http'

/**
 * The bare loop: signs and posts bodies to a sink with limited concurrency, and does nothing else.
 * node post.ts <url> <count> <concurrency>, with a body on standard input.
 */
const [url = '', count = '0', concurrency = '1'] = process.argv.slice(2)
const chunks: Buffer[] = []
for await (const chunk of process.stdin as AsyncIterable<Buffer>) chunks.push(chunk)
const body = Buffer.concat(chunks).toString()
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })
const keys = [Buffer.alloc(32, 1), Buffer.alloc(50, 2)]

const post = (id: string) =>
  new Promise<void>((resolve, reject) => {
    const timestamp = Math.floor(Date.now() / 1000)
    const signature = keys.map((key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`).join(' ')
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': signature,
    }
    const outgoing = request(url, { method: 'POST', agent, headers }, (answer) => {
      answer.resume()
      answer.on('end', resolve)
      answer.on('error', reject)
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })

let next = 0
const started = performance.now()
await Promise.all(
  Array.from({ length: Number(concurrency) }, async () => {
    while (next < Number(count)) await post(`evt-${next++}`)
  }),
)
console.log(JSON.stringify({ per_second: Number(count) / ((performance.now() - started) / 1000) }))
process.exit(0)
