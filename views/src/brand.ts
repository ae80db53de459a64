/** A picture that this deployment serves. */
export interface Picture {
  /** The path on this deployment. Its content never changes. */
  readonly path: string
  readonly content_type: string
  readonly width: number
  readonly height: number
}

/** The seller's brand on pages, mails and documents. Every part except the name may be absent. */
export interface Brand {
  readonly name: string
  /** Our copy of the logo. Readers never ask the host of the original. Null before it was copied, and if it was refused. */
  readonly logo: Picture | null
  /** The accent colour as `#rrggbb`, as the seller gave it. Use `accentOf`, which corrects its contrast. */
  readonly accent: string | null
  readonly support_email: string | null
  readonly website: string | null
  readonly terms_url: string | null
  readonly privacy_url: string | null
}
