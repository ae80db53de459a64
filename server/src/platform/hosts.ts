import type { IncomingMessage } from 'node:http'
import { failure, HostNotAllowed, type Failure } from '@bursar/contract'

/** Names of this machine. They are always allowed, because a foreign site cannot make a browser send them. */
const loopbackNames: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/** Returns the host of a Host header, in lower case and without its port. */
const hostOf = (header: string | undefined): string => (header ?? '').trim().toLowerCase().replace(/:\d*$/, '').replace(/\.$/, '')

/**
 * Rejects a Host header that is not on the list. This prevents DNS rebinding: a foreign site could point its host name
 * at this machine and read every response. An empty list allows every host.
 */
export const refuseHost = ({ headers }: Pick<IncomingMessage, 'headers'>, allowed: readonly string[]): Failure | undefined => {
  if (allowed.length === 0) return undefined
  const names = [...new Set([...loopbackNames, ...allowed])]
  const host = hostOf(headers.host)
  if (names.includes(host)) return undefined
  return new HostNotAllowed(
    `The request names the host ${JSON.stringify(host.slice(0, 100))}. This server serves only ${names.join(', ')}. Use one of these, or add the host to BURSAR_ALLOWED_HOSTS.`,
  )
}

const isLoopback = (address: string | undefined): boolean => /^((::ffff:)?127(\.\d{1,3}){3}|::1)$/i.test(address ?? '')

/** Headers that a proxy adds to a request. With one of them, a request from this machine may have been sent by another machine. */
const forwarding = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'] as const

export const MailboxNotLocal = failure(
  'MailboxNotLocal',
  404,
  'The mailbox is available only on the machine that runs this server. Open /mailbox there, at localhost, 127.0.0.1 or [::1], without a proxy.',
)

/** True if a request was sent on this machine to this machine. Checks the socket, the Host header and that no proxy was involved. */
export const isLocal = ({ headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>): boolean =>
  isLoopback(socket.remoteAddress) && loopbackNames.includes(hostOf(headers.host)) && forwarding.every((name) => headers[name] === undefined)
