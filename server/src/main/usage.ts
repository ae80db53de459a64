/** A command was called with wrong arguments. The message says how to call it. */
export class Usage extends Error {}
