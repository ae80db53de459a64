import type { MemberRole } from '@bursar/contract'
import type { Selectable } from 'kysely'

export interface MemberTable {
  organization_id: string
  id: string
  customer_id: string
  created_at: Date
  modified_at: Date | null
  email: string
  name: string | null
  external_id: string | null
  role: MemberRole
}
export type MemberRow = Selectable<MemberTable>
