import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { sameText, type Secret } from '../../../kernel/secrets.ts'
import { minutes } from '../../../platform/clock.ts'
import { EventRefused, type ProcessorEvent } from '../payments.ts'

const header = 'test-processor-signature'
const tolerance = 5 * minutes

const signatureOf = (secret: Secret, timestamp: string, body: string | Buffer) =>
  createHmac('sha256', secret.reveal()).update(`${timestamp}.`).update(body).digest('hex')

/** Signs a body together with a timestamp. Neither can be changed without the secret. */
export const sign = (secret: Secret, body: string, now: Date): Record<string, string> => {
  const timestamp = String(Math.floor(now.getTime() / 1000))
  return { [header]: `t=${timestamp},v1=${signatureOf(secret, timestamp, body)}` }
}

/** Reads an event that was signed with this secret within five minutes of now, and refuses all others. */
export const readSigned = (secret: Secret, headers: IncomingHttpHeaders, body: Buffer, now: Date): ProcessorEvent => {
  const [, timestamp, signature] = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(String(headers[header])) ?? []
  if (timestamp === undefined || signature === undefined) throw new EventRefused('the event is not signed')
  if (!sameText(signature, signatureOf(secret, timestamp, body))) throw new EventRefused('the signature does not match')
  if (Math.abs(now.getTime() - Number(timestamp) * 1000) > tolerance) throw new EventRefused('the signature is too old')
  // The body needs no validation: the valid signature proves that `takeCallbacks` wrote it.
  const { at, ...event } = JSON.parse(body.toString('utf8')) as Omit<ProcessorEvent, 'at'> & { at: string }
  return { ...event, at: new Date(at) }
}
