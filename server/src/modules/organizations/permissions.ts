import { NotPermitted, type OrganizationRole } from '@bursar/contract'
import type { Reach } from '../../kernel/actors.ts'

const everyone = ['owner', 'admin', 'finance', 'member'] as const
const crew = ['owner', 'admin', 'member'] as const
const heads = ['owner', 'admin'] as const

/** Who, among the people of an organization, may do what. */
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
} as const satisfies Record<string, readonly OrganizationRole[]>

export type Permission = keyof typeof permissions

/** Whether the caller's role in the organization allows this. A machine acts with the organization's own authority. */
export const permits = (reach: Reach, organization_id: string, permission: Permission): boolean => {
  const role = reach.organizations.get(organization_id)
  return role === 'machine' || (role !== undefined && (permissions[permission] as readonly string[]).includes(role))
}

/** The part of a reach within which the caller's role allows this: what a list may show. */
export const confine = (reach: Reach, permission: Permission): Reach => ({
  ...reach,
  organizations: new Map([...reach.organizations].filter(([id]) => permits(reach, id, permission))),
})

/** Refuses a caller whose role in the organization does not allow this, and says which roles would. */
export const permit = (reach: Reach, organization_id: string, permission: Permission): void => {
  if (permits(reach, organization_id, permission)) return
  const roles = permissions[permission]
  throw new NotPermitted(`Your role here is ${reach.organizations.get(organization_id) ?? 'none'}. This needs one of: ${roles.join(', ')}.`)
}
