import { NotPermitted } from '@bursar/contract'
import type { PortalRole } from '../../../kernel/actors.ts'

const payers = ['customer', 'owner', 'billing_manager'] as const
const leaders = ['owner', 'billing_manager'] as const

/**
 * Roles that may perform each portal action. Access to one's own account and benefits needs no entry, because all roles
 * have it. A plain member has no other permissions.
 */
export const actions = {
  'billing:read': payers,
  'billing:manage': payers,
  'seats:manage': payers,
  'team:manage': leaders,
  'team:hand_over': ['owner'],
} as const satisfies Record<string, readonly PortalRole[]>

export type PortalAction = keyof typeof actions

export const allows = (role: PortalRole, action: PortalAction): boolean => (actions[action] as readonly PortalRole[]).includes(role)

/** Rejects a role without permission and names the roles that have it. */
export const allow = (role: PortalRole, action: PortalAction): void => {
  if (!allows(role, action)) throw new NotPermitted(`Your role is ${role}. This needs one of: ${actions[action].join(', ')}.`)
}
