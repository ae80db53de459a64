/**
 * Sends requests to the API at a steady rate, even if the API falls behind. Measures each answer from the time the
 * request was due. Runs in a separate process, so that other work of the benchmark does not delay the measurement.
 * The parent sends `begin` and `end`, and gets the response times of the requests in between.
 * node trickle.ts <port>, with the token of the organization in TOKEN.
 */
const [port] = process.argv.slice(2)
const per_second = 22
const paths = ['/v1/subscriptions/?limit=20', '/v1/orders/?limit=20', '/v1/customers/?limit=20']
const headers = { authorization: `Bearer ${process.env.TOKEN}`, 'content-type': 'application/json' }
let known = '/v1/customers/?limit=1'

const ask = async (due: number, n: number): Promise<number> => {
  const isWrite = n % 11 === 10
  const path = isWrite ? '/v1/customers/' : n % 2 === 0 ? paths[(n / 2) % paths.length]! : known
  const body = isWrite ? { body: JSON.stringify({ email: `trickle-${process.hrtime.bigint()}@people.test` }), method: 'POST' } : {}
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { headers, ...body })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${answer.status} ${text}`)
  if (isWrite) known = `/v1/customers/${(JSON.parse(text) as { id: string }).id}`
  return performance.now() - due
}

const send = async (stopped: AbortSignal): Promise<number[]> => {
  const begun = performance.now()
  const asked: Promise<number>[] = []
  for (let at = 0; !stopped.aborted; at++) {
    const due = begun + (at * 1000) / per_second
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())))
    asked.push(ask(due, at))
  }
  return Promise.all(asked)
}

let stopping = new AbortController()
process.on('message', (message) => {
  if (message === 'end') return stopping.abort()
  stopping = new AbortController()
  void send(stopping.signal).then((latencies) => process.send!(latencies))
})
