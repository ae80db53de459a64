import type { OrganizationRole } from '@bursar/contract'
import type { Locale } from './frame.ts'

/** The screens that the navigation of the dashboard links to: path, the permission to see them, and the key after `g`. */
export const dashboardScreens = [
  { name: 'home', path: '', permission: null, jump: 'h' },
  { name: 'orders', path: 'orders', permission: 'sales:read', jump: 'o' },
  { name: 'customers', path: 'customers', permission: 'customers:read', jump: 'c' },
  { name: 'products', path: 'products', permission: 'products:read', jump: 'p' },
  { name: 'metrics', path: 'metrics', permission: 'analytics:read', jump: 'm' },
  { name: 'webhooks', path: 'webhooks', permission: 'organization:manage', jump: 'w' },
  { name: 'settings', path: 'settings', permission: 'members:read', jump: 's' },
] as const satisfies readonly { name: string; path: string; permission: string | null; jump: string }[]
export type DashboardScreen = (typeof dashboardScreens)[number]['name']

export interface DashboardOrganization {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly role: OrganizationRole
  /** The permissions that this role has. Screens and buttons that need another one are not shown. */
  readonly permissions: readonly string[]
}

/** The data that the page gives to the script of the dashboard, as JSON. */
export interface DashboardIsland {
  readonly person: { readonly id: string; readonly email: string }
  readonly organization: DashboardOrganization
  readonly organizations: readonly Pick<DashboardOrganization, 'id' | 'name' | 'slug'>[]
  readonly locale: Locale
  readonly sandbox: boolean
  readonly development: boolean
  readonly origin: string
}

export type DashboardView =
  | {
      readonly kind: 'dashboard'
      readonly person: DashboardIsland['person']
      readonly organization: DashboardOrganization
      readonly organizations: DashboardIsland['organizations']
      readonly screen: DashboardScreen
    }
  /** The person cannot use the dashboard: there is no organization, or an operator has no second factor. */
  | { readonly kind: 'dashboard-closed'; readonly reason: 'no_organization' | 'no_second_factor' }
