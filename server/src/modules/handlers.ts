import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Access, Answer, BudgetName, Failure, FailureKind, Operation, Parsed } from '@bursar/contract'
import type { Brand, Locale, RenderMail, View } from '@bursar/views'
import type { Client } from '@bursar/contract/client'
import type { Mail } from '../gateways/mail/mail.ts'
import type { Anonymous, Finding, OrganizationActor, PortalActor, TenantScope, UserActor } from '../kernel/actors.ts'
import type { Hasher, Sealer } from '../kernel/secrets.ts'
import type { Clock } from '../platform/clock.ts'
import type { Config } from '../platform/config.ts'
import type { Communities } from '../gateways/communities/communities.ts'
import type { EventStore } from '../gateways/event-store/event-store.ts'
import type { Egress } from '../gateways/egress/egress.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import type { Storage } from '../gateways/storage/storage.ts'
import type { TaxService } from '../gateways/tax/tax.ts'
import type { VatService } from '../gateways/tax/vat.ts'
import type { PeriodicTaskName, DaemonName, JobName, Payload, SweepName } from '../platform/jobs/catalogue.ts'
import type { DaemonLife } from '../platform/jobs/queue.ts'
import type { Lease } from '../platform/jobs/leases.sql.ts'
import type { Discretion } from '../platform/personal.sql.ts'
import type { Log } from '../platform/log.ts'
import type { Live } from '../platform/outbox/live.ts'
import type { Waiter } from '../platform/outbox/waiters.ts'
import type { RunExport } from '../platform/postgres/exporting.ts'
import type { Db, Transact, Tx } from '../platform/postgres/postgres.ts'

export interface Platform {
  readonly config: Config
  readonly clock: Clock
  readonly log: Log
  readonly hasher: Hasher
  readonly sealer: Sealer
  /** Renders mails. The composition root provides it. */
  readonly renderMail: RenderMail
  /** Columns that the modules have declared as personal data or secrets. */
  readonly discretion: Discretion
}

/** The external services, one interface each. */
export interface Gateways {
  readonly mail: Mail
  readonly egress: Egress
  readonly payments: Payments
  readonly communities: Communities
  readonly storage: Storage
  /** Undefined if the deployment has no tax service. */
  readonly tax: TaxService | undefined
  /** Undefined if the deployment has no service that checks VAT numbers. */
  readonly vat: VatService | undefined
  /** The copy of the usage events. Undefined if the deployment has none. */
  readonly eventStore: EventStore | undefined
}

interface Actors {
  open: Anonymous
  session: UserActor
  merchant: OrganizationActor | UserActor
  portal: PortalActor
  visitor: Anonymous | UserActor
  protocol: Anonymous
}
type ActorOf<A extends Access> = Actors[A['kind']]

/** Rate limits that handlers charge explicitly, with `charge` or `chargeOn`. */
export type HandlerBudget = 'checkout_declines' | 'processor_events' | 'ingested_events' | 'vat_checks' | 'vat_checks_of_sellers'

/** A request as its handler receives it: the caller, the caller's tenant scope, and the validated input. */
export interface Call<O extends Operation = Operation> {
  readonly actor: ActorOf<O['access']>
  readonly scope: TenantScope
  readonly params: Parsed<O, 'params'>
  readonly query: Parsed<O, 'query'>
  readonly body: Parsed<O, 'body'>
  /** The client's IP address. */
  readonly address: string
  /** The raw request, for signatures over its bytes and for values that are passed on unchanged. */
  readonly raw: {
    readonly headers: Readonly<Record<string, string | string[] | undefined>>
    readonly body: Buffer
    readonly query: string
    /** The numbers of the body that a double cannot hold, by their path (`pathKey`). Empty unless the operation reads its body in slices. */
    readonly numbers: ReadonlyMap<string, string>
  }
  /** Remembers the seller of this request. If the request fails, its page has the look of that seller. */
  readonly showsSeller: (seller: SellerLook) => void
  /** Headers of the response. */
  readonly reply: Record<string, string | string[]>
  /** True if the client has closed the connection before the answer. */
  readonly isGone: () => boolean
  readonly platform: Platform
  /** The copy of the usage events. Undefined if the deployment has none. */
  readonly eventStore: EventStore | undefined
  /** Joins the requests that wait for events of an organization. Undefined if too many of them wait already. */
  readonly joinWaiters: (organization_id: string) => Waiter | undefined
  /**
   * Charges a rate limit to a key that only the handler knows: one request, or the given units. Call it outside
   * transactions: a retried transaction would charge twice.
   */
  readonly charge: (budget: HandlerBudget, payer: string, units?: number) => Promise<void>
  /** Charges a rate limit of the caller's IP address in advance. Refunds the charge unless the request fails with `failure`. */
  readonly chargeOn: (failure: FailureKind, budget: HandlerBudget) => Promise<void>
}

export type Implementation = { readonly operation: Operation } & (
  | { readonly kind: 'read'; readonly handle: (db: Db, call: Call<never>) => Promise<unknown> }
  | {
      readonly kind: 'write'
      readonly handle: (tx: Tx, call: Call<never>) => Promise<unknown>
      readonly before?: (call: Call<never>) => Promise<void>
      readonly around?: <T>(call: Call<never>, run: () => Promise<T>) => Promise<T>
    }
  | {
      readonly kind: 'multi_step'
      readonly look?: (deps: Deps, call: Call<never>) => Promise<unknown>
      readonly begin: (tx: Tx, call: Call<never>, seen: never) => Promise<unknown>
      readonly proceed: (deps: Deps, call: Call<never>, intent: never) => Promise<unknown>
    }
  | { readonly kind: 'dry_run'; readonly handle: (tx: Tx, call: Call<never>, deps: Deps) => Promise<unknown> }
  | { readonly kind: 'stream'; readonly handle: (run: RunExport, call: Call<never>) => Promise<Readable> }
  | { readonly kind: 'live'; readonly handle: (live: Live, call: Call<never>) => ReturnType<Live['join']> }
  | { readonly kind: 'protocol' }
)

/** A handler that only reads. The database rejects any write. */
export const read = <O extends Operation>(operation: O, handle: (db: Db, call: Call<O>) => Promise<Answer<O>>): Implementation => ({
  operation,
  kind: 'read',
  handle,
})

/**
 * A handler that writes in one transaction. After a serialization failure or deadlock, the transaction is retried from the
 * start. `before` runs once, before the transaction. It charges rate limits. `around` runs `before` and the transaction, and
 * may delay or refuse them.
 */
export const write = <O extends Operation>(
  operation: O,
  handle: (tx: Tx, call: Call<O>) => Promise<Answer<O> | Refusal>,
  before?: (call: Call<O>) => Promise<void>,
  around?: <T>(call: Call<O>, run: () => Promise<T>) => Promise<T>,
): Implementation => ({ operation, kind: 'write', handle, ...(before ? { before } : {}), ...(around ? { around } : {}) })

/**
 * A multi-step handler, for operations that call an external service and therefore need more than one transaction.
 * `begin` commits the intent, and returns the ids that `proceed` needs to load the intent again. It returns `Finished`
 * if no step is left. The answer is then stored in the transaction of `begin`.
 * `proceed` carries out the intent in short transactions of its own. Only `look` and `proceed` may call a gateway.
 * A retry with the same idempotency key continues with the same intent. `proceed` must be able to continue from any
 * point at which the previous run stopped.
 */
export const multiStep = <O extends Operation, Seen, Intent extends Readonly<Record<string, string | null>>>(
  operation: O,
  work: {
    /** Queries external services before the intent is committed. Must have no lasting effect. */
    readonly look?: (deps: Deps, call: Call<O>) => Promise<Seen>
    readonly begin: (tx: Tx, call: Call<O>, seen: Seen) => Promise<Intent | Finished<Answer<O>> | Refusal>
    readonly proceed: (deps: Deps, call: Call<O>, intent: Intent) => Promise<Answer<O> | Refusal | Pending>
  },
): Implementation => ({ operation, kind: 'multi_step', ...work })

/** The answer of a multi-step request that has ended with its first transaction. */
export class Finished<T> {
  readonly answer: T
  constructor(answer: T) {
    this.answer = answer
  }
}

/** A dry-run handler, whose transaction is always rolled back. The request is not audited, and its answer is not stored for retries. */
export const dryRun = <O extends Operation>(operation: O, handle: (tx: Tx, call: Call<O>, deps: Deps) => Promise<Answer<O>>): Implementation => ({
  operation,
  kind: 'dry_run',
  handle,
})

/** A handler that streams a file of any size from one read-only snapshot. */
export const stream = <O extends Operation>(operation: O, handle: (run: RunExport, call: Call<O>) => Promise<Readable>): Implementation => ({
  operation,
  kind: 'stream',
  handle,
})

/** A handler whose answer stays open and tells the client about changes, as server-sent events. */
export const live = <O extends Operation>(operation: O, handle: (live: Live, call: Call<O>) => ReturnType<Live['join']>): Implementation => ({
  operation,
  kind: 'live',
  handle,
})

/** An operation that the OAuth library answers. The server adds the API version, the rate limit and the response headers. */
export const speak = (operation: Operation & { access: { kind: 'protocol' } }): Implementation => ({ operation, kind: 'protocol' })

/** A request for a page: the visitor and the input. */
export interface PageCall {
  readonly actor: Anonymous | UserActor
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** The fields of the form; empty if there is none. */
  readonly form: URLSearchParams
  /** The client's IP address. */
  readonly address: string
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Runs a transaction. The audit log records the actor of this request. */
  readonly transact: Transact
  /** Client for our own API with the rights of the given token. Checks and rate limits are the same as for external requests. */
  readonly api: (token?: string) => Client
  /** The language in which the page is shown. `wished` are the languages that the page passes as `locales`. */
  readonly locale: (wished?: string) => Locale
}

/** A seller as its pages show it. */
export interface SellerLook {
  readonly slug: string
  readonly brand: Brand
}

/** A page to show or a redirect, both with optional cookies. */
export type PageAnswer = {
  readonly cookies?: readonly string[]
  /** The seller that the page belongs to. Null if the address belongs to no seller. Without it, an error page takes the seller of its address. */
  readonly seller?: SellerLook | null
} & (
  | {
      readonly view: View
      readonly status?: number
      /** Other origins that forms on this page may submit or redirect to (CSP `form-action`). */ readonly leadsTo?: readonly string[]
      /** Languages that the referring app asked for, best first. */ readonly locales?: string
      /** The URL that shows this page again, if it differs from the requested one. */ readonly here?: string
      /** True if the page loads our script, which enhances it. If false, the page loads no script. */ readonly script?: boolean
      /** True if the browser must refuse texts as HTML or code (trusted types). */ readonly trustedTypes?: boolean
      /** The URL that the browser loads next, without user action. */ readonly refresh?: string
      /** External sources that the page may load, by CSP directive. */ readonly outside?: Outside
    }
  | { readonly redirect: string }
  /** A mail as HTML, shown alone. It has styles of its own, and may load images. */
  | { readonly mail: string }
  /** A file that the browser saves. */
  | { readonly file: { readonly name: string; readonly type: 'text/csv'; readonly text: string } }
)

/** External hosts that a page may load from, by CSP directive. */
export type Outside = Readonly<Partial<Record<'script-src' | 'frame-src' | 'connect-src' | 'img-src', readonly string[]>>>

/** An HTML page with one path and one method. The server rejects forms that were not submitted from its own pages. */
export interface Page {
  readonly method: 'GET' | 'POST'
  readonly path: `/${string}`
  /** If true, an anonymous visitor is redirected to the sign-in page, and back to this page after signing in. */
  readonly signedIn: boolean
  readonly budget?: BudgetName
  readonly handle: (call: PageCall) => Promise<PageAnswer>
}

/** The pages that browsers see instead of the general error page, by failure. */
export const pageInstead = new WeakMap<Failure, Pick<Extract<PageAnswer, { view: View }>, 'view' | 'seller'>>()

/** An error answer whose transaction is committed. Example: a wrong sign-in code is rejected, and the attempt is still counted. */
export interface Refusal {
  readonly refusal: Failure
}
export const refuse = (refusal: Failure): Refusal => ({ refusal })
export const isRefusal = (answer: unknown): answer is Refusal =>
  typeof answer === 'object' && answer !== null && 'refusal' in answer && answer.refusal instanceof Error

/** A result that is not ready yet. The answer has the status that the operation declares as `pending`, and no body. */
export interface Pending {
  readonly pending: true
}
export const pending: Pending = { pending: true }

/** Dependencies of code that opens its own short transactions and may call gateways, such as jobs and sweeps. */
export interface Deps {
  readonly db: Db
  readonly transact: Transact
  readonly gateways: Gateways
  readonly platform: Platform
}

export interface JobImplementation {
  readonly name: JobName
  readonly run: (deps: Deps, payload: never) => Promise<void>
}
export const job = <N extends JobName>(name: N, run: (deps: Deps, payload: Payload<N>) => Promise<void>): JobImplementation => ({ name, run })

export interface SweepImplementation {
  readonly name: SweepName
  readonly run: (deps: Deps, lease: Lease) => Promise<void>
  /** Processes several due rows of one organization together. Returns one promise for each lease. */
  readonly group?: RunGroup | undefined
}
type RunGroup = (deps: Deps, leases: readonly Lease[]) => readonly Promise<void>[]
export const sweep = (name: SweepName, run: (deps: Deps, lease: Lease) => Promise<void>, group?: RunGroup): SweepImplementation => ({ name, run, group })

export interface PeriodicTaskImplementation {
  readonly name: PeriodicTaskName
  readonly run: (deps: Deps) => Promise<void>
}
export const periodicTask = (name: PeriodicTaskName, run: (deps: Deps) => Promise<void>): PeriodicTaskImplementation => ({ name, run })

export interface DaemonImplementation {
  readonly name: DaemonName
  readonly run: (deps: Deps, life: DaemonLife) => Promise<void>
}
export const daemon = (name: DaemonName, run: (deps: Deps, life: DaemonLife) => Promise<void>): DaemonImplementation => ({ name, run })

/**
 * Records which API calls of an integration would break in phase 2 of the member migration. Records only organizations
 * in phase 1. The counts are collected in memory and written to the database periodically.
 */
export interface Readiness {
  /** Counts one call of the integration. The value `seen` records only that the integration is active. */
  readonly note: (organization_id: string, actor: OrganizationActor | UserActor, finding: Finding | 'seen', operation: string) => void
  readonly flush: () => Promise<void>
}

/** Everything that one module contributes to the server. */
export interface Area {
  readonly operations: readonly Implementation[]
  readonly jobs: readonly JobImplementation[]
  readonly sweeps: readonly SweepImplementation[]
  readonly periodicTasks: readonly PeriodicTaskImplementation[]
  readonly daemons?: readonly DaemonImplementation[]
  /** Columns of the module's tables that contain personal data. */
  readonly personal?: Discretion['personal']
  /** Columns of the module's tables that contain secrets, even encrypted or hashed ones. */
  readonly secret?: Discretion['secret']
}
