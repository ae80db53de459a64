import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Secret } from '../../../kernel/secrets.ts'

/**
 * Returns the two signing keys of a secret. The first is the base64-decoded key of Standard Webhooks. The second
 * consists of the raw characters of the secret, which older clients of this contract use.
 */
export const signingKeys = (secret: Secret): readonly KeyObject[] => {
  const text = secret.reveal()
  return [createSecretKey(Buffer.from(text.replace(/^whsec_/, ''), 'base64')), createSecretKey(Buffer.from(text))]
}

/** Signs the delivery according to the Standard Webhooks specification, once with each key. A receiver accepts any matching signature. */
export const sign = (keys: readonly KeyObject[], id: string, timestamp: number, body: string): string => {
  const content = `${id}.${timestamp}.${body}`
  return keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`).join(' ')
}

interface Card {
  type: string
  timestamp: string
  data: Record<string, unknown>
}

/** Renders the body for each format: the payload unchanged, or a short message for a chat. */
export const render = (format: 'raw' | 'slack' | 'discord', payload: string): string => {
  if (format === 'raw') return payload
  const { type, timestamp, data } = JSON.parse(payload) as Card
  const facts = (['name', 'email', 'status', 'id'] as const).flatMap((key) => (typeof data[key] === 'string' ? [`${key}: ${plain(data[key])}`] : []))
  const text = [`${type} at ${timestamp}`, ...facts].join('\n')
  return format === 'slack'
    ? JSON.stringify({ text, blocks: [{ type: 'section', text: { type: 'plain_text', text } }] })
    : JSON.stringify({ content: text, allowed_mentions: { parse: [] } })
}

/** Removes markup from values that customers control, so that a chat does not render them as links, mentions or commands. */
const plain = (text: string): string => text.slice(0, 200).replace(/[<>&@`*_~|\n\r]/g, ' ')
