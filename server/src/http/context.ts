import type { Operation } from '@bursar/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../kernel/actors.ts'
import type { Gateways, Implementation, Page, Platform, Readiness } from '../modules/handlers.ts'
import type { OAuth } from '../modules/identity/index.ts'
import type { Audit, AuditContext } from '../platform/audit/audit.ts'
import type { Live } from '../platform/outbox/live.ts'
import type { Waiters } from '../platform/outbox/waiters.ts'
import type { Postgres, Transact } from '../platform/postgres/postgres.ts'
import type { Telemetry } from '../platform/telemetry.ts'
import type { AuthContext } from './authenticate.ts'
import type { Budgets } from './budget.ts'
import type { Pages } from './pages.ts'
import type { Sliced } from './slices.ts'

/** The results of the request stages that run before the body is read. */
interface Progress {
  readonly elapsed: () => number
  operation?: Operation
  /** True if a browser gets a page about an error of this request. */
  page?: boolean
  actor: Actor
}

declare module 'fastify' {
  interface FastifyRequest {
    progress: Progress
    rawBody: Buffer
    /** How the body was read. Only for operations that read their body in slices. */
    sliced: Omit<Sliced, 'body'> | null
  }
}

export interface ServerOptions {
  readonly implementations: readonly Implementation[]
  readonly platform: Platform
  readonly postgres: Postgres
  readonly telemetry: Telemetry
  readonly budgets: Budgets
  readonly audit: Audit
  readonly gateways: Gateways
  readonly oauth: OAuth
  readonly pages: Pages
  readonly pageDoors: readonly Page[]
  readonly readiness: Readiness
  /** Finds the copy of a seller's logo by its path. */
  readonly findLogo: (organization_id: string, name: string) => Promise<{ readonly content_type: string; readonly bytes: Buffer } | undefined>
  /** The requests that wait for events. */
  readonly waiters: Waiters
  /** The streams of live hints. */
  readonly live: Live
  /** Returns the problems that keep this process from serving. Empty if the process is ready. */
  readonly unready: () => Promise<string[]>
}

/** The dependencies that all stages of a request share. */
export interface HttpContext extends ServerOptions {
  readonly auth: AuthContext
  /** Returns a transaction function that records its changes in the audit log under the caller. */
  readonly recorded: (entry: AuditContext) => Transact
  /** Sends the error response. All errors are turned into responses here. */
  readonly fail: (error: unknown, request: FastifyRequest, reply: FastifyReply) => FastifyReply | Promise<FastifyReply>
}
