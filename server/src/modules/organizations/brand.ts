import type { Organization } from '@bursar/contract'
import type { Brand } from '@bursar/views'
import type { SellerLook } from '../handlers.ts'

/** The copy of a logo, or the reason why there is none. */
export interface Logo {
  /** The `avatar_url` that was copied. */
  readonly source: string
  readonly sha256: string
  readonly content_type: string
  readonly width: number
  readonly height: number
}
export type LogoState = Logo | { readonly source: string; readonly problem: string }

const endings: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/svg+xml': 'svg',
}

/** The columns of an organization that are its brand. */
interface Branded extends Pick<Organization, 'id' | 'name' | 'avatar_url' | 'email' | 'website' | 'brand_settings'> {
  readonly logo: LogoState | null
}

/** Returns the copy of the current logo. Null before it was copied, and if it was refused. */
const currentLogo = ({ id, avatar_url, logo }: Branded): Brand['logo'] => {
  if (!logo || 'problem' in logo || logo.source !== avatar_url) return null
  const { sha256, content_type, width, height } = logo
  return { path: `/assets/logos/${id}/${sha256.slice(0, 32)}.${endings[content_type]!}`, content_type, width, height }
}

/** Returns the brand of a seller from its stored organization. */
export const brandOf = (row: Branded): Brand => ({
  name: row.name,
  logo: currentLogo(row),
  accent: row.brand_settings.accent_color,
  support_email: row.email,
  website: row.website,
  terms_url: row.brand_settings.terms_url,
  privacy_url: row.brand_settings.privacy_url,
})

/** Returns the look of a seller's pages from its stored organization. */
export const lookOf = (row: Branded & Pick<Organization, 'slug'>): SellerLook => ({ slug: row.slug, brand: brandOf(row) })
