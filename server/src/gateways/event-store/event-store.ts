/** Answer of the event store to a question. Numbers of 64 bits are text. */
export interface EventStoreAnswer {
  readonly rows: readonly (readonly unknown[])[]
  /** The row of a question `with totals`. */
  readonly totals: readonly unknown[] | undefined
}

/** A server of the event store. It may be unavailable at any time. */
export interface EventServer {
  /** Tells servers apart. It has no password. */
  readonly address: string
  readonly run: (statement: string) => Promise<void>
  /** Runs a statement that may wait for long. The server refuses a second statement of the same name while the first is running. */
  readonly wait: (statement: string, name: string, timeout_ms: number) => Promise<void>
  /** Inserts rows. The name of the insert is shown in the store as long as it runs. */
  readonly insert: (table: string, rows: readonly object[], name: string) => Promise<void>
  /** The store itself gives up shortly before the timeout. So a slow question is refused, and only a store that gives no answer is silent. */
  readonly ask: (question: string, timeout_ms: number) => Promise<EventStoreAnswer>
  readonly close: () => Promise<void>
}

/**
 * The store for the copy of the usage events. It answers questions over many events. It holds nothing that PostgreSQL does not
 * hold.
 */
export interface EventStore {
  /** Tells stores apart. Contains the addresses of all servers. */
  readonly address: string
  /** One server, or several that replicate each other. */
  readonly servers: readonly EventServer[]
  readonly close: () => Promise<void>
}

/** The store refused a statement, or did not answer. */
export class EventStoreUnavailable extends Error {}

/** No answer came: the store cannot be reached, or it was silent for the whole time. */
export class EventStoreSilent extends EventStoreUnavailable {}

/** The store has no such table or database. */
export class EventStoreTableMissing extends EventStoreUnavailable {}

/** Writes text as a literal for the store. */
export const literal = (text: string): string =>
  `'${text
    .replaceAll('\\', String.raw`\\`)
    .replaceAll("'", String.raw`\'`)
    .replaceAll('\0', String.raw`\0`)}'`
