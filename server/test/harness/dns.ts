import { createSocket } from 'node:dgram'
import { once } from 'node:events'

const txt = 16

/** Opens a real DNS server on the loopback address that answers TXT queries. Other names do not exist. */
export const openDns = async () => {
  const records = new Map<string, readonly string[]>()
  const broken = new Set<string>()
  const asked: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const labels: string[] = []
    let at = 12
    while (query[at] !== 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!))
      at += query[at]! + 1
    }
    const question = query.subarray(12, at + 5)
    const name = labels.join('.').toLowerCase()
    asked.push(name)
    const texts = query.readUInt16BE(at + 1) === txt ? (records.get(name) ?? []) : []
    const code = broken.has(name) ? 2 : records.has(name) ? 0 : 3
    const head = Buffer.alloc(12)
    query.copy(head, 0, 0, 2)
    // A recursive answer, with the response code.
    head.writeUInt16BE(0x8180 | code, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(code === 0 ? texts.length : 0, 6)
    const answers = texts.map((text) => {
      const parts = (text.match(/.{1,255}/gs) ?? ['']).map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part, 'latin1')]))
      const data = Buffer.concat(parts)
      const record = Buffer.alloc(12)
      // A pointer to the name of the question.
      record.writeUInt16BE(0xc00c, 0)
      record.writeUInt16BE(txt, 2)
      record.writeUInt16BE(1, 4)
      record.writeUInt32BE(0, 6)
      record.writeUInt16BE(data.length, 10)
      return Buffer.concat([record, data])
    })
    socket.send(Buffer.concat([head, question, ...(code === 0 ? answers : [])]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    address: `127.0.0.1:${socket.address().port}`,
    /** Replaces all records. A name has one or more texts. */
    set: (given: Readonly<Record<string, readonly string[] | string>>) => {
      records.clear()
      broken.clear()
      asked.length = 0
      for (const [name, texts] of Object.entries(given)) records.set(name, [texts].flat())
    },
    /** Makes the server fail for a name, as if the authoritative server were away. */
    fail: (name: string) => void broken.add(name),
    /** The names of all queries since the records were replaced. */
    asked,
    close: () => socket.close(),
  }
}
export type Dns = Awaited<ReturnType<typeof openDns>>
