import { connect, type Socket } from 'node:net'

/** Sends one request over and over on so many connections, and counts. Runs in a process of its own. */
const [port, path, token, connections, milliseconds] = process.argv.slice(2) as [string, string, string, string, string]
const request = Buffer.from(`GET ${path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${token}\r\n\r\n`)
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
      socket.write(request)
    }
    socket.on('data', (chunk) => {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk])
      const head = buffered.indexOf('\r\n\r\n')
      if (head < 0) return
      const length = Number(/content-length: (\d+)/i.exec(buffered.toString('latin1', 0, head))?.[1] ?? 0)
      if (buffered.length < head + 4 + length) return
      if (buffered.toString('latin1', 9, 12) !== '200') failures++
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
console.log(JSON.stringify({ per_second: latencies.length / seconds, p50: sorted[Math.floor(sorted.length / 2)], failures }))
