import { z } from 'zod'

const value = z.union([z.string().min(1).max(500), z.int(), z.number(), z.boolean()])

/** The seller's own data about a record: up to 50 pairs of a short key and a scalar value. */
export const Metadata = z.record(z.string(), value).meta({ id: 'Metadata' })
export type Metadata = z.output<typeof Metadata>

export const metadataInput = () =>
  z
    .record(z.string().min(1).max(40), value)
    .refine((pairs) => Object.keys(pairs).length <= 50, 'Keep at most 50 pairs.')
    .meta({ maxProperties: 50 })

/**
 * Filter by metadata, for example `?metadata[plan]=pro`. Values of a repeated key are combined with OR, different keys
 * with AND. Values are compared as text.
 */
export const metadataFilter = () =>
  z
    .record(
      z.string().min(1).max(40),
      z.union([z.string(), z.array(z.string()).max(100)]).transform((given) => (Array.isArray(given) ? given : [given])),
    )
    .optional()
    .describe('Only records whose metadata has these values.')
