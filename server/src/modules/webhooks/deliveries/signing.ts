import { createHmac } from 'node:crypto'
import type { Secret } from '../../../kernel/secrets.ts'

/**
 * Signs as Standard Webhooks says, once with the key that stands in the secret and once with the letters of the secret
 * itself, which is how older clients of this contract verify. The receiver takes any one that fits.
 */
export const sign = (secrets: readonly Secret[], id: string, timestamp: number, body: string): string =>
  secrets
    .flatMap((secret) => {
      const text = secret.reveal()
      return [Buffer.from(text.replace(/^whsec_/, ''), 'base64'), Buffer.from(text)]
    })
    .map((key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`)
    .join(' ')

interface Card {
  type: string
  timestamp: string
  data: Record<string, unknown>
}

/** The body for each format: the payload as it stands, or a short card for a chat. */
export const render = (format: 'raw' | 'slack' | 'discord', payload: string): string => {
  if (format === 'raw') return payload
  const { type, timestamp, data } = JSON.parse(payload) as Card
  const facts = (['name', 'email', 'status', 'id'] as const).flatMap((key) => (typeof data[key] === 'string' ? [`${key}: ${plain(data[key])}`] : []))
  const text = [`${type} at ${timestamp}`, ...facts].join('\n')
  return format === 'slack'
    ? JSON.stringify({ text, blocks: [{ type: 'section', text: { type: 'plain_text', text } }] })
    : JSON.stringify({ content: text, allowed_mentions: { parse: [] } })
}

/** Names are other people's words: they must not become links, mentions or commands. */
const plain = (text: string): string => text.slice(0, 200).replace(/[<>&@`*_~|\n\r]/g, ' ')
