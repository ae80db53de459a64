import { InvalidRequest, type MovedCustomer } from '@bursar/contract'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { chooseOne, permit } from '../../organizations/index.ts'
import { listPairs, type Pair } from './ids.sql.ts'

const most = 1000

/** Returns the organization whose id map is read. Requires the permission to read customers. */
export const chooseMap = (scope: TenantScope, wanted: string | undefined): string => {
  const organization_id = chooseOne(scope, wanted === undefined ? [] : [wanted])
  permit(scope, organization_id, 'customers:read')
  return organization_id
}

export interface MapQuery {
  readonly organization_id?: string | undefined
  readonly cursor?: string | undefined
  readonly limit: number
}

/** Returns one page of the id map. The cursor contains the last pair of ids, so that concurrent changes do not skip or repeat other pairs. */
export const readMap = async (db: Db, scope: TenantScope, query: MapQuery): Promise<{ items: MovedCustomer[]; next_cursor: string | null }> => {
  const organization_id = chooseMap(scope, query.organization_id)
  const limit = Math.min(query.limit, most)
  const after = query.cursor === undefined ? undefined : readCursor(query.cursor)
  // Fetches one pair more than the page size, to detect whether there is another page.
  const found = await listPairs(db, organization_id, after, limit + 1)
  const items = found.slice(0, limit)
  return { items, next_cursor: found.length > limit ? writeCursor(items.at(-1)!) : null }
}

const writeCursor = ({ holder_customer_id, member_id }: Pair): string => Buffer.from(`${holder_customer_id} ${member_id}`).toString('base64url')

const pair = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/

const readCursor = (cursor: string): Pair => {
  const [, holder_customer_id, member_id] = pair.exec(Buffer.from(cursor, 'base64url').toString()) ?? []
  if (holder_customer_id !== undefined && member_id !== undefined) return { holder_customer_id, member_id }
  throw new InvalidRequest({ loc: ['query', 'cursor'], msg: 'Send the next_cursor of an earlier answer.', type: 'value_error', input: cursor })
}
