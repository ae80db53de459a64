import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Secret } from '../../../kernel/secrets.ts'

/**
 * The keys that a secret stands for: the one that Standard Webhooks reads out of it, and the letters of the secret itself,
 * which is how older clients of this contract verify.
 */
export const signingKeys = (secret: Secret): readonly KeyObject[] => {
  const text = secret.reveal()
  return [createSecretKey(Buffer.from(text.replace(/^whsec_/, ''), 'base64')), createSecretKey(Buffer.from(text))]
}

/** Signs as Standard Webhooks says, once with each key: the receiver takes any one that fits. */
export const sign = (keys: readonly KeyObject[], id: string, timestamp: number, body: string): string => {
  const content = `${id}.${timestamp}.${body}`
  return keys.map((key) => `v1,${createHmac('sha256', key).update(content).digest('base64')}`).join(' ')
}

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
