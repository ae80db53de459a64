import type { IncomingMessage } from 'node:http'
import type { Outside, Platform } from '../modules/handlers.ts'
import { keptSecret } from './visits.ts'

/** Exactly what the processor's form loads. */
export const stripe: Outside = {
  'script-src': ['https://js.stripe.com', 'https://*.js.stripe.com'],
  'frame-src': ['https://js.stripe.com', 'https://*.js.stripe.com', 'https://hooks.stripe.com'],
  'connect-src': ['https://api.stripe.com'],
}

/**
 * What the bank waits for, while its payer is asked: of one checkout, of one order, or of the cards of one seller's
 * portal. Beside it the key of the account that asked, where it has one: by then another may be the seller's default.
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
