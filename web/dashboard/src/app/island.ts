import type { DashboardIsland } from '@bursar/views'

/** The data that the server put into the page. */
export const island = JSON.parse(document.querySelector('#island')!.textContent) as DashboardIsland

export const may = (permission: string): boolean => island.organization.permissions.includes(permission)
export const base = `/dashboard/${island.organization.slug}`
