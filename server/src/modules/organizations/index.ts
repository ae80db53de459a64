import type { Area } from '../handlers.ts'
import { operations as organizations } from './organizations/organizations.api.ts'

export const area: Area = { operations: organizations, jobs: [], sweeps: [], chores: [] }

export { chooseOrganization, create as createOrganization, capabilities, findSeller, present as presentOrganization } from './organizations/organizations.ts'
export { confine, permit, permits, permissions, type Permission } from './permissions.ts'
export { findLiving as findLivingOrganization, findOrganization, insertMembership } from './organizations/organizations.sql.ts'
