import { z } from 'zod'

/** The address `<prefix><token>@<domain>`. */
export interface BounceAddress {
  readonly prefix: string
  readonly domain: string
}

/** The token is 41 characters long, and a local part at most 64. */
export const bounceAddress = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._+-]{0,22}\{token\}@([a-z0-9][a-z0-9-]*\.)+[a-z0-9-]{2,}$/,
    'give an address with {token}, in lower case, for example bounces+{token}@mail.shop.example. At most 23 characters may precede {token}',
  )
  .transform((text): BounceAddress => {
    const [prefix = '', domain = ''] = text.split('{token}@')
    return { prefix, domain }
  })

export const dkimSelectors = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]*(,[a-z0-9][a-z0-9._-]*)*$/i, 'give selectors, separated by commas, for example s1,s2')
  .transform((text) => text.split(','))
