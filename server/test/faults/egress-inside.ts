import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { openEgress } from '../../src/gateways/egress/egress.ts'
import { TargetRefused } from '../../src/gateways/egress/targets.ts'
import { forbidden, treacherous, type Zone } from './forbidden.ts'

// Runs in a separate network namespace in which every address leads to this machine. Every connection attempt succeeds, and the kernel counts it.
for (const line of ['link set lo up', 'route add local 0.0.0.0/0 dev lo', '-6 route add local ::/0 dev lo']) execFileSync('ip', line.split(' '))
const trap = createServer((socket) => socket.destroy()).listen(443, '::')
await once(trap, 'listening')
/** Returns the number of connections that this network has opened, as the kernel counts them. */
const opened = () => {
  const [names, values] = readFileSync('/proc/net/snmp', 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('Tcp:'))
  return Number(values!.split(' ')[names!.split(' ').indexOf('ActiveOpens')])
}

const asked = new Map<string, number>()
const zones: Record<string, Zone> = { ...treacherous, 'good.example.com': { a: ['93.184.216.34'] } }
const server = createSocket('udp4', (question, from) => {
  const labels: string[] = []
  let at = 12
  while (question[at] !== 0) {
    labels.push(question.subarray(at + 1, at + 1 + question[at]!).toString())
    at += question[at]! + 1
  }
  const type = question.readUInt16BE(at + 1)
  const name = labels.join('.').toLowerCase()
  const key = `${name} ${type}`
  const before = asked.get(key) ?? 0
  asked.set(key, before + 1)
  const zone = before > 0 && zones[name]?.afterwards ? zones[name].afterwards : (zones[name] ?? {})
  const addresses = type === 1 ? (zone.a ?? []) : type === 28 ? (zone.aaaa ?? []) : []
  const record = (kind: number, data: Buffer, owner = Buffer.from([0xc0, 12])) => {
    const head = Buffer.alloc(10)
    head.writeUInt16BE(kind, 0)
    head.writeUInt16BE(1, 2)
    head.writeUInt16BE(data.length, 8)
    return Buffer.concat([owner, head, data])
  }
  const encodeName = (text: string) =>
    Buffer.concat([...text.split('.').map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])), Buffer.from([0])])
  const answers = addresses.map((address) =>
    record(type, type === 1 ? Buffer.from(address.split('.').map(Number)) : sixteen(address), zone.cname ? encodeName(zone.cname) : undefined),
  )
  if (zone.cname && answers.length > 0) answers.unshift(record(5, encodeName(zone.cname)))
  const header = Buffer.from(question.subarray(0, 12))
  header.writeUInt16BE(0x8180 | (answers.length === 0 && !zones[name] ? 3 : 0), 2)
  header.writeUInt16BE(answers.length, 6)
  header.writeUInt16BE(0, 8)
  header.writeUInt16BE(0, 10)
  server.send(Buffer.concat([header, question.subarray(12, at + 5), ...answers]), from.port, from.address)
})
server.bind(5399, '127.0.0.1')
await once(server, 'listening')

/** Returns the sixteen bytes of an IPv6 address. */
function sixteen(text: string): Buffer {
  const plain = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...parts: string[]) => {
    const [a, b, c, d] = parts.slice(0, 4).map(Number) as [number, number, number, number]
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  })
  const [head = '', tail] = plain.split('::')
  const left = head.split(':').filter((part) => part !== '')
  const right = (tail ?? '').split(':').filter((part) => part !== '')
  const groups = [...left, ...Array.from({ length: tail === undefined ? 0 : 8 - left.length - right.length }, () => '0'), ...right]
  const bytes = Buffer.alloc(16)
  groups.forEach((group, at) => bytes.writeUInt16BE(Number.parseInt(group, 16), at * 2))
  return bytes
}

let ahead = 0
const clock = { wall: () => new Date(Date.now() + ahead), business: () => new Date() }
const egress = openEgress({ loopback: false, own_host: 'bursar.test', dns_servers: ['127.0.0.1:5399'] }, clock)
const call = async (target: string): Promise<string> => {
  try {
    await egress.post(target, { headers: {}, body: '{}', timeout_ms: 30_000 })
    return 'answered'
  } catch (error) {
    return error instanceof TargetRefused ? 'refused' : `failed: ${(error as Error).message}`
  }
}

const before = opened()
const literal = await Promise.all(forbidden.map(async (target) => [target, await call(target)] as const))
const named: [string, string][] = []
for (const name of Object.keys(treacherous).filter((one) => !treacherous[one]!.afterwards)) named.push([name, await call(`https://${name}/hooks`)])
const silent = opened()
// Names with DNS rebinding: the first DNS answer is public and may be used. The second is internal and must be refused.
const turning: Record<string, unknown> = {}
for (const name of Object.keys(treacherous).filter((one) => treacherous[one]!.afterwards)) {
  const first = await call(`https://${name}/hooks`)
  ahead += 60_000
  const between = opened()
  turning[name] = { first, second: await call(`https://${name}/hooks`), opened: opened() - between }
}
// Control measurement: a request to a public name must open a connection that the kernel counts.
const control = opened()
await call('https://good.example.com/hooks')
console.log(JSON.stringify({ literal, named, turning, opened: silent - before, control: opened() - control }))
process.exit(0)
