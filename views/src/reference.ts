/** A field of a request or an answer, or a parameter. Variants of a record are fields with the name of the variant. */
export interface ReferenceField {
  readonly name: string
  /** The type for people, such as `list of text`. */
  readonly type: string
  readonly required: boolean
  readonly description: string
  readonly fields: readonly ReferenceField[]
}

/** The kinds of credentials that the reference names. */
export const referenceCallers = ['oat', 'pat', 'oidc', 'session', 'customer_session', 'member_session', 'anyone'] as const
export type ReferenceCaller = (typeof referenceCallers)[number]

/** An operation in the list of all operations. */
export interface ReferenceEntry {
  readonly id: string
  readonly anchor: string
  readonly method: string
  readonly path: string
  readonly summary: string
}

export interface ReferenceOperation extends ReferenceEntry {
  readonly description: string | null
  readonly callers: readonly ReferenceCaller[]
  /** A credential needs one of these scopes. */
  readonly scopes: readonly string[]
  readonly parameters: readonly (ReferenceField & { readonly where: string })[]
  readonly body: readonly ReferenceField[]
  readonly answer: { readonly status: string; readonly description: string; readonly fields: readonly ReferenceField[]; readonly example: string | null }
  readonly errors: readonly { readonly status: string; readonly names: readonly string[]; readonly description: string }[]
  readonly curl: string
  /** Null if the typed client does not send such requests. */
  readonly typescript: string | null
}

export interface ReferenceArea {
  readonly name: string
  /** The part of the address. */
  readonly slug: string
  readonly operations: readonly ReferenceEntry[]
}
