import type { Area } from '../handlers.ts'
import { operations as memberships } from './memberships/memberships.api.ts'
import { operations as organizations } from './organizations/organizations.api.ts'

export const area: Area = { operations: [...organizations, ...memberships], jobs: [], sweeps: [] }

export { findMembership, insertMembership, type UserTable } from './memberships/memberships.sql.ts'
export { addOwner } from './memberships/memberships.ts'
export { chooseOrganization, create as createOrganization, capabilities } from './organizations/organizations.ts'
export { permit, permits, permissions, type Permission } from './permissions.ts'
export { findOrganizationBySlug } from './organizations/organizations.sql.ts'
