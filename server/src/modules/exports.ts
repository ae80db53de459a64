import type { Readable } from 'node:stream'
import type { Export } from '../platform/postgres/exports.sql.ts'
import type { RunExport } from '../platform/postgres/exporting.ts'
import type { Call } from './handlers.ts'

/** Returns the export as a CSV download. Its file name contains the given dates. The header `x-total-count` is the number of records. */
export const download = async (
  run: RunExport,
  reply: Call['reply'],
  what: Export,
  name: string,
  bounds: readonly (Date | undefined)[] = [],
): Promise<Readable> => {
  const { total, body } = await run(what)
  const day = new Intl.DateTimeFormat('sv-SE', { timeZone: what.timezone, dateStyle: 'short' })
  const days = bounds.flatMap((bound) => (bound ? [day.format(bound)] : []))
  reply['content-disposition'] = `attachment; filename="${[name, ...days].join('-')}.csv"`
  reply['x-total-count'] = String(total)
  return body
}
