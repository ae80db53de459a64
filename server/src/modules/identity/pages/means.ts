import type { Postgres } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import type { OAuth } from '../oauth/provider.ts'

/** What the pages work with. */
export interface PageMeans {
  readonly oauth: OAuth
  readonly platform: Platform
  readonly postgres: Pick<Postgres, 'db'>
}

/** Where an answer goes, as a browser's policy names it: an origin, or the scheme of an app's own. */
export const placeOf = (uri: string): string => {
  const { origin, protocol } = new URL(uri)
  return origin === 'null' ? protocol : origin
}
