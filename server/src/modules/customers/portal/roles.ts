import { NotPermitted } from '@bursar/contract'
import type { PortalRole } from '../../../kernel/actors.ts'

const payers = ['customer', 'owner', 'billing_manager'] as const
const leaders = ['owner', 'billing_manager'] as const

/** Who may do what in the portal. Their own account and benefits are everybody's and need no row; a plain member has nothing else. */
export const actions = {
  'billing:read': payers,
  'billing:manage': payers,
  'seats:manage': payers,
  'team:manage': leaders,
  'team:hand_over': ['owner'],
} as const satisfies Record<string, readonly PortalRole[]>

export type PortalAction = keyof typeof actions

export const allows = (role: PortalRole, action: PortalAction): boolean => (actions[action] as readonly PortalRole[]).includes(role)

/** Refuses whoever's role does not allow this, and says which would. */
export const allow = (role: PortalRole, action: PortalAction): void => {
  if (!allows(role, action)) throw new NotPermitted(`Your role is ${role}. This needs one of: ${actions[action].join(', ')}.`)
}
