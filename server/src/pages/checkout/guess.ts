import { SellerCountry } from '@bursar/contract'

/**
 * Guesses the country of a buyer from the `Accept-Language` header. Returns null if the header names no region, several
 * regions, or a region that is no country we sell to.
 */
export const guessCountry = (header: string | undefined): string | null => {
  const tags = (header ?? '').split(',').map((part) => part.split(';')[0]!.trim())
  const regions = new Set(tags.flatMap((tag) => /^[a-z]{2,3}(?:-[a-z]{4})?-([a-z]{2})$/i.exec(tag)?.[1]?.toUpperCase() ?? []))
  const [region] = regions
  const country = SellerCountry.safeParse(region)
  return regions.size === 1 && country.success ? country.data : null
}
