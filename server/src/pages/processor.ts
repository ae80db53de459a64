import type { IncomingMessage } from 'node:http'
import type { Outside, Platform } from '../modules/handlers.ts'
import { keptSecret } from './visits.ts'

/** The origins that the payment processor's form loads from. */
export const stripe: Outside = {
  'script-src': ['https://js.stripe.com', 'https://*.js.stripe.com'],
  'frame-src': ['https://js.stripe.com', 'https://*.js.stripe.com', 'https://hooks.stripe.com'],
  'connect-src': ['https://api.stripe.com'],
}

/**
 * The pending challenge of a bank: of one checkout, of one order, or of a card in one seller's portal. The publishable
 * key of the payment account is stored with it, because the seller's default account may have changed since. The test
 * processor has no such key.
 */
export const bankOf = (platform: Platform, id: string) => {
  const kept = keptSecret(platform, `bank_${id}`)
  return {
    read: (request: IncomingMessage): { readonly secret: string; readonly key: string | null } | undefined => {
      const [secret = '', key = null] = kept.read(request)?.split('.') ?? []
      return secret === '' ? undefined : { secret, key }
    },
    keep: (secret: string, key: string | null): string => kept.keep(key === null ? secret : `${secret}.${key}`, 3600),
    forget: kept.forget,
  }
}
