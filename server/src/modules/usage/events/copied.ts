import { window, type PageRequest } from '@bursar/contract'
import { organizationIds, type TenantScope } from '../../../kernel/actors.ts'
import { readCursor, writeCursor } from '../../../platform/postgres/lists.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { fromCopy, type CopyReader } from '../copies/asking.ts'
import { loadMissing } from '../copies/copies.sql.ts'
import { countSelected, selectPlaces, type Place, type Selection } from '../copies/questions.sql.ts'
import type { EventFilters, FoundFilters } from './filters.sql.ts'
import { selectSystemPlaces } from './system-events.sql.ts'

interface PlacesFound {
  readonly ids: readonly string[]
  readonly total: number
  readonly next_cursor: string | null
}

const isAfter = (one: Place, other: Place, descending: boolean): boolean => {
  const order = one.at - other.at || (one.id < other.id ? -1 : one.id > other.id ? 1 : 0)
  return descending ? order < 0 : order > 0
}

/** Finds one page of events in the copy. System events are not copied, so they are added from PostgreSQL. Returns undefined if PostgreSQL has to answer. */
export const listFromCopy = async (
  db: Db,
  reader: CopyReader,
  scope: TenantScope,
  query: EventFilters & PageRequest & { readonly sorting: readonly string[] },
  { subjects, meter }: FoundFilters,
  conditions: Parameters<typeof loadMissing>[2],
  { kind, counted }: { readonly kind: 'user' | 'both'; readonly counted: boolean },
): Promise<PlacesFound | undefined> => {
  const owners = organizationIds(scope, query.organization_id)
  const selection: Selection = {
    organization_ids: meter ? owners.filter((id) => id === meter.organization_id) : owners,
    after: query.start_timestamp?.getTime(),
    before: query.end_timestamp?.getTime(),
    name: query.name,
    source: query.source,
    subjects,
    filters: [query.filter, meter?.filter].flatMap((filter) => filter ?? []),
    counted: meter?.aggregation,
    metadata: query.metadata,
  }
  const descending = query.sorting[0]?.startsWith('-') ?? false
  const { size, offset: paged } = window(query)
  const after = query.cursor === undefined ? undefined : readCursor(query.cursor, query.sorting, [{ type: 'timestamptz' }, { type: 'uuid' }]).values
  const beyond: Place | undefined = after && { at: Date.parse(after[0]!), id: after[1]! }
  const offset = beyond ? 0 : paged
  return fromCopy(db, reader, selection, async (uncopied, ask) => {
    const missing = (await loadMissing(db, uncopied, conditions)).map(({ id, timestamp }): Place => ({ at: timestamp.getTime(), id }))
    const system =
      kind === 'user' ? { places: [], total: 0 } : await selectSystemPlaces(db, owners, conditions, { descending, beyond, most: offset + size + 1, counted })
    const total = counted ? Number((await ask(countSelected(uncopied, selection))).rows[0]![0]) + missing.length + system.total : 0
    // An event that is not in the copy moves the others by one place at most. So the page is among these.
    const skip = Math.max(0, offset - missing.length - system.places.length)
    const found = (await ask(selectPlaces(uncopied, selection, { descending, beyond, skip, most: offset - skip + size + 1 }))).rows.map(([at, id]): Place => ({
      at: Number(at),
      id: String(id),
    }))
    const places = [...found, ...system.places, ...missing.filter((place) => !beyond || isAfter(place, beyond, descending))].toSorted((a, b) =>
      isAfter(a, b, descending) ? 1 : -1,
    )
    const page = places.slice(offset - skip, offset - skip + size)
    const last = page.at(-1)
    const hasMore = places.length > offset - skip + size
    return {
      ids: page.map(({ id }) => id),
      total,
      next_cursor: hasMore && last ? writeCursor(query.sorting, [new Date(last.at), last.id]) : null,
    }
  })
}
