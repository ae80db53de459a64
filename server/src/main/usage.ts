/** A mistake in how a command was called, as opposed to something that broke. */
export class Usage extends Error {}
