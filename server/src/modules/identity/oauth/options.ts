import type { IncomingMessage } from 'node:http'
import type { Postgres } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'

/** Path of the developer documentation, which the discovery document contains as `service_documentation`. */
export const documentationPath = '/docs'

/** Paths of the OAuth protocol endpoints. The OAuth library answers these requests. */
export const protocolPaths = {
  authorization: '/oauth2/authorize',
  token: '/v1/oauth2/token',
  userinfo: '/v1/oauth2/userinfo',
  introspection: '/v1/oauth2/introspect',
  revocation: '/v1/oauth2/revoke',
  jwks: '/.well-known/jwks.json',
} as const

export interface OAuthOptions {
  readonly platform: Platform
  readonly postgres: Pick<Postgres, 'db' | 'transact'>
  /** Renders an error page for a request whose redirect URI is not verified. Never redirects. */
  readonly showProblem: (
    request: IncomingMessage,
    problem: { error: string; description: string; request_id: string | null },
  ) => { html: string; headers: Record<string, string> }
}
