import type { Area } from '../handlers.ts'
import { operations as auditLog } from './audit-log/audit-log.api.ts'
import { operations as organizations } from './organizations/organizations.api.ts'

export const area: Area = {
  operations: [...organizations, ...auditLog],
  jobs: [],
  sweeps: [],
  periodicTasks: [],
  personal: { organizations: { columns: { email: 'address', details: 'nothing', legal_entity: 'nothing' } } },
}

export {
  allowOffSession,
  changePhase,
  chooseOne,
  chooseOrganization,
  createOrganization,
  createLegacyOrganization,
  capabilities,
  dropAvatar,
  findSeller,
  presentOrganization,
  presentSeller,
} from './organizations/organizations.ts'
export { confine, permit, permits, permissions, type Permission } from './permissions.ts'
export {
  findLivingOrganization,
  findOrganization,
  findSeatSellers,
  heldPhase,
  holdPhase,
  insertMembership,
  type OrganizationRow,
} from './organizations/organizations.sql.ts'
