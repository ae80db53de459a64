/** The data of a released version: how to open it, and what its API answered. */
export interface Recorded {
  readonly version: string
  /** The address in the links of the answers. */
  readonly public_url: string
  /** A token of the organization acme, with all scopes of that version. */
  readonly token: string
  /** The secrets of the sandbox that wrote the data. They protect test data only. */
  readonly peppers: string
  readonly sealing_keys: string
  /** Answers by path. */
  readonly answers: Record<string, unknown>
}
