import { connect, type Socket } from 'node:net'

/**
 * Sends one request repeatedly on several connections, and counts the answers. With a body it sends POST, and replaces
 * `{n}` by a different value each time. An empty token sends no credential. Runs in a separate process.
 */
const [port, path, token, connections, milliseconds, body] = process.argv.slice(2) as [string, string, string, string, string, string?]
const head = `${path} HTTP/1.1\r\nhost: bench\r\n${token === '' ? '' : `authorization: Bearer ${token}\r\n`}`
const reading = Buffer.from(`GET ${head}\r\n`)
let sent = 0
const writing = (template: string) => {
  const text = template.replaceAll('{n}', `${process.pid}-${sent++}`)
  return `POST ${head}content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`
}
const latencies: number[] = []
let failures = 0
const until = performance.now() + Number(milliseconds)

const drive = () =>
  new Promise<void>((resolve, reject) => {
    const socket: Socket = connect(Number(port), '127.0.0.1', send)
    socket.setNoDelay(true)
    let started = 0
    let buffered = Buffer.alloc(0)
    function send() {
      if (performance.now() >= until) return void socket.end(() => resolve())
      started = performance.now()
      socket.write(body === undefined ? reading : writing(body))
    }
    socket.on('data', (chunk) => {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk])
      const end = buffered.indexOf('\r\n\r\n')
      if (end < 0) return
      const length = Number(/content-length: (\d+)/i.exec(buffered.toString('latin1', 0, end))?.[1] ?? 0)
      if (buffered.length < end + 4 + length) return
      if (buffered.toString('latin1', 9, 10) !== '2') failures++
      latencies.push(performance.now() - started)
      buffered = Buffer.alloc(0)
      send()
    })
    socket.on('error', reject)
  })

const began = performance.now()
await Promise.all(Array.from({ length: Number(connections) }, drive))
const seconds = (performance.now() - began) / 1000
const sorted = latencies.toSorted((a, b) => a - b)
console.log(JSON.stringify({ answers: latencies.length, per_second: latencies.length / seconds, p50: sorted[Math.floor(sorted.length / 2)], failures }))
