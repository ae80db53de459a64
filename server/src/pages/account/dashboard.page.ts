import { dashboardScreens, type DashboardOrganization } from '@bursar/views'
import { scopeOf, type UserActor } from '../../kernel/actors.ts'
import type { Page, PageAnswer, PageCall } from '../../modules/handlers.ts'
import { hostCookie, organizationsOf, readCookie, setCookie } from '../../modules/identity/index.ts'
import { permissions, permits, type Permission } from '../../modules/organizations/index.ts'
import type { PageDeps } from './deps.ts'

/** How long the browser remembers the organization that was opened last. */
const rememberedSeconds = 365 * 86_400

/** The frame of the dashboard. The screens are rendered in the browser, and call the API with the session of the person. */
export const dashboardPages = ({ platform: { config }, postgres: { db } }: PageDeps): Page[] => {
  const cookie = hostCookie(config, 'organization')
  const all = Object.keys(permissions) as Permission[]

  /** Lists the person's organizations, and says why the dashboard is closed to the person. */
  const openedBy = async ({ actor }: PageCall) => {
    const person = actor as UserActor
    const organizations = await organizationsOf(db, [...person.memberships.keys()])
    // The session of an operator without a second factor has no scope of the merchant API.
    const reason = !person.scopes.has('organizations:read') ? 'no_second_factor' : organizations.length === 0 ? 'no_organization' : null
    return { person, organizations, reason } as const
  }
  const closed = (reason: 'no_second_factor' | 'no_organization'): PageAnswer => ({ status: 403, view: { kind: 'dashboard-closed', reason } })

  const show = async (call: PageCall): Promise<PageAnswer> => {
    const { person, organizations, reason } = await openedBy(call)
    if (reason) return closed(reason)
    const { slug, '*': rest = '' } = call.params
    const found = organizations.find((one) => one.slug === slug)
    if (!found) return { status: 404, view: { kind: 'problem', status: 404, error: 'not_found', description: '', request_id: null } }
    const scope = scopeOf(person)
    const organization: DashboardOrganization = {
      id: found.id,
      name: found.name,
      slug: found.slug,
      role: person.memberships.get(found.id)!,
      permissions: all.filter((permission) => permits(scope, found.id, permission)),
    }
    const [first = ''] = rest.split('/')
    return {
      script: true,
      trustedTypes: true,
      cookies: [setCookie(config, cookie, found.slug, rememberedSeconds)],
      view: {
        kind: 'dashboard',
        person: { id: person.user_id, email: person.email },
        organization,
        organizations: organizations.map(({ id, name, slug }) => ({ id, name, slug })),
        screen: dashboardScreens.find(({ path }) => path === first)?.name ?? 'home',
      },
    }
  }

  return [
    {
      method: 'GET',
      path: '/dashboard',
      signedIn: true,
      handle: async (call) => {
        const { organizations, reason } = await openedBy(call)
        if (reason) return closed(reason)
        const last = readCookie(call.request.headers.cookie, cookie)
        const { slug } = organizations.find((one) => one.slug === last) ?? organizations[0]!
        return { redirect: `/dashboard/${slug}` }
      },
    },
    { method: 'GET', path: '/dashboard/:slug', signedIn: true, handle: show },
    { method: 'GET', path: '/dashboard/:slug/*', signedIn: true, handle: show },
  ]
}
