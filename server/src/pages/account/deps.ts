import type { Platform } from '../../modules/handlers.ts'
import type { OAuth } from '../../modules/identity/index.ts'
import type { Postgres } from '../../platform/postgres/postgres.ts'

/** Dependencies of the account pages. */
export interface PageDeps {
  readonly oauth: OAuth
  readonly platform: Platform
  readonly postgres: Pick<Postgres, 'db'>
}

/** Returns the source expression of a URI for a content security policy: its origin, or its custom scheme. */
export const placeOf = (uri: string): string => {
  const { origin, protocol } = new URL(uri)
  return origin === 'null' ? protocol : origin
}
