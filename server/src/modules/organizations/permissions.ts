import { NotPermitted, organizationPermissions, type OrganizationPermission, type OrganizationRole } from '@bursar/contract'
import type { TenantScope } from '../../kernel/actors.ts'

const everyone = ['owner', 'admin', 'finance', 'member'] as const
const crew = ['owner', 'admin', 'member'] as const
const heads = ['owner', 'admin'] as const

/** Roles that have each permission in an organization. */
export const permissions = {
  'organization:manage': heads,
  'members:read': crew,
  'members:manage': heads,
  'products:read': everyone,
  'products:manage': crew,
  'custom_fields:read': everyone,
  'custom_fields:manage': crew,
  'customers:read': everyone,
  'customers:manage': crew,
  'sales:read': everyone,
  'sales:manage': everyone,
  'analytics:read': everyone,
  'analytics:manage': crew,
  'events:ingest': crew,
  'finance:read': ['owner', 'admin', 'finance'],
  'finance:manage': heads,
} as const satisfies Record<OrganizationPermission, readonly OrganizationRole[]>

export type Permission = OrganizationPermission

/** Lists the permissions of a role. */
export const permissionsOf = (role: OrganizationRole): Permission[] =>
  organizationPermissions.filter((permission) => (permissions[permission] as readonly string[]).includes(role))

/** Returns true if the caller's role has the permission. A machine token acts with the authority of the organization itself. */
export const permits = (scope: TenantScope, organization_id: string, permission: Permission): boolean => {
  const role = scope.organizations.get(organization_id)
  return role === 'machine' || (role !== undefined && (permissions[permission] as readonly string[]).includes(role))
}

/** Narrows the scope to organizations in which the caller has the permission. Used for lists. */
export const confine = (scope: TenantScope, permission: Permission): TenantScope => ({
  ...scope,
  organizations: new Map([...scope.organizations].filter(([id]) => permits(scope, id, permission))),
})

/** Rejects a caller without the permission and names the roles that have it. */
export const permit = (scope: TenantScope, organization_id: string, permission: Permission): void => {
  if (permits(scope, organization_id, permission)) return
  const roles = permissions[permission]
  throw new NotPermitted(`Your role here is ${scope.organizations.get(organization_id) ?? 'none'}. This needs one of: ${roles.join(', ')}.`)
}
