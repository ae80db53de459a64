import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { Access, Answer, BudgetName, Failure, Operation, Parsed, View } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import type { Mail } from '../gateways/mail/mail.ts'
import type { Anonymous, Finding, OrganizationActor, PortalActor, Reach, UserActor } from '../kernel/actors.ts'
import type { Hasher, Sealer } from '../kernel/secrets.ts'
import type { Clock } from '../platform/clock.ts'
import type { Config } from '../platform/config.ts'
import type { Communities } from '../gateways/communities/communities.ts'
import type { Egress } from '../gateways/egress/egress.ts'
import type { Payments } from '../gateways/payments/payments.ts'
import type { Storage } from '../gateways/storage/storage.ts'
import type { ChoreName, EngineName, JobName, Payload, SweepName } from '../platform/jobs/catalogue.ts'
import type { EngineLife } from '../platform/jobs/queue.ts'
import type { Lease } from '../platform/jobs/leases.sql.ts'
import type { Discretion } from '../platform/personal.sql.ts'
import type { Log } from '../platform/log.ts'
import type { RunExport } from '../platform/postgres/exporting.ts'
import type { Db, Transact, Tx } from '../platform/postgres/postgres.ts'

export interface Platform {
  readonly config: Config
  readonly clock: Clock
  readonly log: Log
  readonly hasher: Hasher
  readonly sealer: Sealer
  /** What the areas have declared to be about people, or secret. */
  readonly discretion: Discretion
}

/** The outside world, one interface each. */
export interface Gateways {
  readonly mail: Mail
  readonly egress: Egress
  readonly payments: Payments
  readonly communities: Communities
  readonly storage: Storage
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

/** One request, after every check that needs no data: who calls, what they may reach, what they sent. */
export interface Call<O extends Operation = Operation> {
  readonly actor: ActorOf<O['access']>
  readonly reach: Reach
  readonly params: Parsed<O, 'params'>
  readonly query: Parsed<O, 'query'>
  readonly body: Parsed<O, 'body'>
  /** The request as it came, for what is signed over its bytes, or handed on as it is. */
  readonly raw: { readonly headers: Readonly<Record<string, string | string[] | undefined>>; readonly body: Buffer; readonly query: string }
  /** Headers that go out with the answer. */
  readonly reply: Record<string, string>
  readonly platform: Platform
}

export type Implementation = { readonly operation: Operation } & (
  | { readonly kind: 'read'; readonly handle: (db: Db, call: Call<never>) => Promise<unknown> }
  | { readonly kind: 'write'; readonly handle: (tx: Tx, call: Call<never>) => Promise<unknown> }
  | {
      readonly kind: 'steps'
      readonly look?: (means: Means, call: Call<never>) => Promise<unknown>
      readonly begin: (tx: Tx, call: Call<never>, seen: never) => Promise<unknown>
      readonly proceed: (means: Means, call: Call<never>, intent: never) => Promise<unknown>
    }
  | { readonly kind: 'rehearsal'; readonly handle: (tx: Tx, call: Call<never>, means: Means) => Promise<unknown> }
  | { readonly kind: 'stream'; readonly handle: (run: RunExport, call: Call<never>) => Promise<Readable> }
  | { readonly kind: 'protocol' }
)

/** Answers from what is stored; the database refuses it any write. */
export const read = <O extends Operation>(operation: O, handle: (db: Db, call: Call<O>) => Promise<Answer<O>>): Implementation => ({
  operation,
  kind: 'read',
  handle,
})

/** Changes what is stored: one transaction, which may run again from the start when it loses a race. */
export const write = <O extends Operation>(operation: O, handle: (tx: Tx, call: Call<O>) => Promise<Answer<O> | Refusal>): Implementation => ({
  operation,
  kind: 'write',
  handle,
})

/**
 * Does more than one transaction can hold, because somebody outside is asked. `begin` commits what is intended, and hands
 * back what is needed to find it again; `proceed` does it in short transactions of its own, and is the only place where a
 * request may call a gateway. Whoever repeats the request with its key goes on with the same intent: `proceed` must be
 * right from wherever the one before was stopped.
 */
export const steps = <O extends Operation, Seen, Intent extends Readonly<Record<string, string | null>>>(
  operation: O,
  work: {
    /** What has to be asked outside before anything is intended; it changes nothing that anybody would miss. */
    readonly look?: (means: Means, call: Call<O>) => Promise<Seen>
    readonly begin: (tx: Tx, call: Call<O>, seen: Seen) => Promise<Intent | Refusal>
    readonly proceed: (means: Means, call: Call<O>, intent: Intent) => Promise<Answer<O> | Refusal | Pending>
  },
): Implementation => ({ operation, kind: 'steps', ...work })

/** Tries out what would happen, in a transaction that is undone: nothing is changed, so there is nothing to record or to repeat. */
export const rehearsal = <O extends Operation>(operation: O, handle: (tx: Tx, call: Call<O>, means: Means) => Promise<Answer<O>>): Implementation => ({
  operation,
  kind: 'rehearsal',
  handle,
})

/** Answers with a file as it is being made, however large: from one snapshot, in which nothing can be changed. */
export const stream = <O extends Operation>(operation: O, handle: (run: RunExport, call: Call<O>) => Promise<Readable>): Implementation => ({
  operation,
  kind: 'stream',
  handle,
})

/** Answered by the protocol's own implementation, behind our version, budget and headers. */
export const speak = (operation: Operation & { access: { kind: 'protocol' } }): Implementation => ({ operation, kind: 'protocol' })

/** One visit to a page: who looks, and what they sent. */
export interface PageCall {
  readonly actor: Anonymous | UserActor
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** What the form holds; empty for a visit without one. */
  readonly form: URLSearchParams
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** For what this visit changes: the audit log says who did it. */
  readonly transact: Transact
  /** Our own API, as whoever holds the token may use it: the same door, checks and budgets as from outside. */
  readonly api: (token?: string) => Client
}

/** A page to show, or an address to go to; cookies go along either way. */
export type PageAnswer = { readonly cookies?: readonly string[] } & (
  | {
      readonly view: View
      readonly status?: number
      /** Where a form on this page may lead, besides here. */ readonly leadsTo?: readonly string[]
      /** The languages that whoever sent the person here asked for, best first. */ readonly locales?: string
      /** The address that shows this page again, where it is not the one that was asked for. */ readonly here?: string
      /** The page is better with our script; without, it has none. */ readonly script?: boolean
      /** Where the browser goes on to by itself. */ readonly refresh?: string
      /** What else the page may load, by the policy's own names. */ readonly outside?: Outside
    }
  | { readonly redirect: string }
)

/** Hosts besides our own. */
export type Outside = Readonly<Partial<Record<'script-src' | 'frame-src' | 'connect-src' | 'img-src', readonly string[]>>>

/** A page for people: one address, one method. A form is taken only from our own pages. */
export interface Page {
  readonly method: 'GET' | 'POST'
  readonly path: `/${string}`
  /** Nobody signed in is sent to sign in first, and comes back. */
  readonly signedIn: boolean
  readonly budget?: BudgetName
  readonly handle: (call: PageCall) => Promise<PageAnswer>
}

/** A refusal whose transaction commits all the same: a wrong guess is refused, and the try stays spent. */
export interface Refusal {
  readonly refusal: Failure
}
export const refuse = (refusal: Failure): Refusal => ({ refusal })
export const isRefusal = (answer: unknown): answer is Refusal =>
  typeof answer === 'object' && answer !== null && 'refusal' in answer && answer.refusal instanceof Error

/** Not there yet, though it will be: answered as the operation declares, without a body. */
export interface Pending {
  readonly pending: true
}
export const pending: Pending = { pending: true }

/** What background work is given: it opens its own short transactions, and is the place where gateways are called. */
export interface Means {
  readonly db: Db
  readonly transact: Transact
  readonly gateways: Gateways
  readonly platform: Platform
}

export interface JobImplementation {
  readonly name: JobName
  readonly run: (means: Means, payload: never) => Promise<void>
}
export const job = <N extends JobName>(name: N, run: (means: Means, payload: Payload<N>) => Promise<void>): JobImplementation => ({ name, run })

export interface SweepImplementation {
  readonly name: SweepName
  readonly run: (means: Means, lease: Lease) => Promise<void>
}
export const sweep = (name: SweepName, run: (means: Means, lease: Lease) => Promise<void>): SweepImplementation => ({ name, run })

export interface ChoreImplementation {
  readonly name: ChoreName
  readonly run: (means: Means) => Promise<void>
}
export const chore = (name: ChoreName, run: (means: Means) => Promise<void>): ChoreImplementation => ({ name, run })

export interface EngineImplementation {
  readonly name: EngineName
  readonly run: (means: Means, life: EngineLife) => Promise<void>
}
export const engine = (name: EngineName, run: (means: Means, life: EngineLife) => Promise<void>): EngineImplementation => ({ name, run })

/** What integrations do while an organization prepares for members: noted in passing, written down now and then. */
export interface Readiness {
  /** `seen`: it did something, whatever it was. */
  readonly note: (organization_id: string, actor: OrganizationActor | UserActor, finding: Finding | 'seen', operation: string) => void
  readonly flush: () => Promise<void>
}

/** What an area brings to the running system. */
export interface Area {
  readonly operations: readonly Implementation[]
  readonly jobs: readonly JobImplementation[]
  readonly sweeps: readonly SweepImplementation[]
  readonly chores: readonly ChoreImplementation[]
  readonly engines?: readonly EngineImplementation[]
  /** The columns of its tables that tell who somebody is. */
  readonly personal?: Discretion['personal']
  /** The columns of its tables that hold secrets, sealed or hashed though they are. */
  readonly secret?: Discretion['secret']
}
