import { z } from 'zod'
import { integerInText, resource } from './schemas.ts'

export const pageSizeLimit = 100

/** Number of records in one response. A number above the maximum is replaced by the maximum. */
export const pageSize = (usual: number, most = pageSizeLimit) =>
  integerInText(z.int().min(1))
    .default(usual)
    .meta({ maximum: most, description: `Records in one answer. A number above ${most} is treated as ${most}.` })

/**
 * Pagination parameters: a one-based page number and a page size. A size above the maximum is replaced by the maximum,
 * so that clients that iterate get all records.
 */
export const pageQuery = {
  page: integerInText(z.int().min(1)).default(1).describe('One-based page number.'),
  cursor: z.string().max(2000).optional().describe('Continues after the last record of an earlier answer; `page` is then ignored.'),
  limit: pageSize(10),
}

export const Pagination = resource('Pagination', {
  total_count: z
    .int()
    .describe('Records that match, over all pages. Above 10,000 matches of a filter, a page by `cursor` repeats the number of the first page.'),
  max_page: z.int().describe('The last page at this size; 0 when nothing matches.'),
  next_cursor: z.string().nullable().describe('Send it as `cursor` to get the next records, even if records are added or removed meanwhile; null at the end.'),
})

/** A list response: the records of one page, and its pagination. */
export const page = <T extends z.ZodType>(name: string, item: T) => resource(name, { items: z.array(item), pagination: Pagination })

export interface PageRequest {
  page: number
  limit: number
  cursor?: string | undefined
}

/** Returns the size and offset of a page request, with the size clamped. */
export const window = ({ page: number, limit }: PageRequest) => {
  const size = Math.min(limit, pageSizeLimit)
  return { size, offset: (number - 1) * size }
}

/** Builds the list response from the records of a page and the total count. */
export const paginate = <T>(request: PageRequest, items: T[], total: number, next_cursor: string | null = null) => ({
  items,
  pagination: { total_count: total, max_page: Math.ceil(total / window(request).size), next_cursor },
})

/** The sort order, for example `sorting=-created_at&sorting=name`. A leading minus sorts descending. */
export const sorting = <const K extends string>(name: string, keys: readonly [K, ...K[]], fallback: readonly [`${'' | '-'}${K}`, ...`${'' | '-'}${K}`[]]) => {
  const values = keys.flatMap((key) => [key, `-${key}`]) as unknown as [`${'' | '-'}${K}`, ...`${'' | '-'}${K}`[]]
  const one = z.enum(values).meta({ id: name })
  return z
    .preprocess((value) => (value === '' ? [...fallback] : Array.isArray(value) ? value : [value]), z.array(one).min(1).max(keys.length))
    .default([...fallback] as never)
}
