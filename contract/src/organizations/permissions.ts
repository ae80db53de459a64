import { z } from 'zod'
import { named } from '../kit/index.ts'

/** The permissions that roles have in an organization. The server defines the roles that have each of them. */
export const organizationPermissions = [
  'organization:manage',
  'members:read',
  'members:manage',
  'products:read',
  'products:manage',
  'custom_fields:read',
  'custom_fields:manage',
  'customers:read',
  'customers:manage',
  'sales:read',
  'sales:manage',
  'analytics:read',
  'analytics:manage',
  'events:ingest',
  'finance:read',
  'finance:manage',
] as const
export const OrganizationPermission = named('OrganizationPermission', z.enum(organizationPermissions))
export type OrganizationPermission = z.output<typeof OrganizationPermission>
