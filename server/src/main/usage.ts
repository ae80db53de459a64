/** A command was called with wrong arguments. The message says how to call it. */
export class Usage extends Error {}

/** The server of a command does not answer. `code` is the code of the failed connection. */
export class Unreachable extends Error {
  readonly code: string
  constructor(message: string, code: string, cause: unknown) {
    super(message, { cause })
    this.code = code
  }
}
