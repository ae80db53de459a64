import { z } from 'zod'
import { integerInText, resource } from './schemas.ts'

export const pageSizeLimit = 100

/** One-based page and its size. A size above the maximum is taken as the maximum, so that iteration stays complete. */
export const pageQuery = {
  page: integerInText(z.int().min(1)).default(1).describe('One-based page number.'),
  cursor: z.string().max(2000).optional().describe('Continues after the last record of an earlier answer; `page` then counts for nothing.'),
  limit: integerInText(z.int().min(1)).default(10).describe(`Records on a page, ${pageSizeLimit} at most; a larger number is taken as ${pageSizeLimit}.`),
}

export const Pagination = resource('Pagination', {
  total_count: z.int().describe('Records that match, over all pages.'),
  max_page: z.int().describe('The last page at this size; 0 when nothing matches.'),
  next_cursor: z.string().nullable().describe('Send it as `cursor` to get what comes next, whatever is added or removed meanwhile; null at the end.'),
})

/** A collection answer: the records of one page and where it stands in the whole. */
export const page = <T extends z.ZodType>(name: string, item: T) => resource(name, { items: z.array(item), pagination: Pagination })

export interface PageRequest {
  page: number
  limit: number
  cursor?: string | undefined
}

/** Limit and offset of a page request, with the size clamped. */
export const window = ({ page: number, limit }: PageRequest) => {
  const size = Math.min(limit, pageSizeLimit)
  return { size, offset: (number - 1) * size }
}

/** Puts the records of a page and the total into the collection answer. */
export const paginate = <T>(request: PageRequest, items: T[], total: number, next_cursor: string | null = null) => ({
  items,
  pagination: { total_count: total, max_page: Math.ceil(total / window(request).size), next_cursor },
})

/** `sorting=-created_at&sorting=name`: keys in order, a leading minus for descending. */
export const sorting = <const K extends string>(name: string, keys: readonly [K, ...K[]], fallback: readonly [`${'' | '-'}${K}`, ...`${'' | '-'}${K}`[]]) => {
  const values = keys.flatMap((key) => [key, `-${key}`]) as unknown as [`${'' | '-'}${K}`, ...`${'' | '-'}${K}`[]]
  const one = z.enum(values).meta({ id: name })
  return z
    .preprocess((value) => (value === '' ? [...fallback] : Array.isArray(value) ? value : [value]), z.array(one).min(1).max(keys.length))
    .default([...fallback] as never)
}
