import { request, type IncomingMessage } from 'node:http'
import { LiveHint, type LiveMessage } from '@bursar/contract'
import { eventually } from './world.ts'

export interface StreamMessage {
  readonly event: LiveMessage | ''
  readonly id: string
  readonly data: unknown
}

/** Opens a stream of server-sent events over a real socket, and keeps its messages. */
export const openStream = async (port: number, path: string, headers: Readonly<Record<string, string>>) => {
  const messages: StreamMessage[] = []
  let rest = ''
  let isOver = false
  const outgoing = request({ host: '127.0.0.1', port, path, headers, agent: false })
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => outgoing.once('response', resolve).once('error', reject).end())
  outgoing.on('error', () => {})
  let body = ''
  incoming.setEncoding('utf8')
  incoming.on('data', (text: string) => {
    body += text
    const blocks = `${rest}${text}`.split('\n\n')
    rest = blocks.pop()!
    for (const block of blocks) {
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? ''
      const data = field('data')
      messages.push({ event: field('event') as LiveMessage, id: field('id'), data: data === '' ? undefined : JSON.parse(data) })
    }
  })
  incoming.once('close', () => (isOver = true))
  incoming.on('error', () => {})
  const hints = () => messages.filter(({ event }) => event === 'hint').map(({ data }) => LiveHint.parse(data))
  return {
    status: incoming.statusCode!,
    headers: incoming.headers,
    messages,
    hints,
    text: () => body,
    /** Stops reading, so that the server's data stays in the buffers of the connection. */
    pause: () => incoming.pause(),
    isOver: () => isOver,
    /** Waits for the message with this event field. */
    message: (event: LiveMessage) => eventually(`the message ${event}`, async () => messages.find((one) => one.event === event)),
    /** Waits until this number of hints has arrived. */
    received: (count: number) => eventually(`${count} hints`, async () => hints().length >= count && hints()),
    ended: () => eventually('the end of the stream', async () => isOver),
    close: () => outgoing.destroy(),
  }
}
export type Stream = Awaited<ReturnType<typeof openStream>>
