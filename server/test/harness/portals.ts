import { createBenefit, createCustomerSession, createMember, type MemberRole } from '@bursar/contract'
import { portalCookiePrefix } from '../../src/modules/identity/index.ts'
import { noteSecrets } from './secrets.ts'
import { openContext, type Browser, type ContextOptions, type Page } from './browser.ts'
import type { Team, Teams } from './teams.ts'
import type { World } from './world.ts'

const allowed = { update_seats: true, update_plan: true, pause: true }

/** Opens teams that use the portal's pages. Each person has a separate browser context. */
export const openPortals = (world: World, teams: Teams, browser: Browser) => {
  /** Buys seats for a team whose seller allows every change in the portal. Changes apply and are charged at once. */
  const team = async (wish: Parameters<Teams['buy']>[0] = {}): Promise<Team> => {
    const shop = wish.shop ?? (await world.shop())
    await world.database.owner((owner) =>
      owner.query(
        `update organizations set name = 'Harbour Works', customer_portal_settings = customer_portal_settings || $2::jsonb,
           subscription_settings = subscription_settings || '{"proration_behavior": "invoice"}' where id = $1`,
        [shop.organization.id, JSON.stringify({ subscription: allowed })],
      ),
    )
    const benefit = async (description: string) =>
      (await shop.api.call(createBenefit, { body: { type: 'custom', description, properties: { note: null } } as never })).id
    return teams.buy({ shop, benefits: [await benefit('All courses of the workshop'), await benefit('A place at the yearly meeting')], ...wish })
  }

  /** Opens a browser that is signed in to the portal: as the owner, or as a new member with this role. */
  const enter = async (
    of: Pick<Team, 'api' | 'organization' | 'customer_id' | 'owner'>,
    who: { role?: MemberRole; email?: string; return_url?: string } = {},
    options: ContextOptions = {},
  ) => {
    const { role = 'owner', email = `${role}@people.test`, return_url = null } = who
    const member = role === 'owner' ? of.owner : await of.api.call(createMember, { params: { id: of.customer_id }, body: { email, name: 'Mina Vogt', role } })
    const { token } = await of.api.call(createCustomerSession, { body: { customer_id: of.customer_id, member_id: member.id, return_url } })
    noteSecrets(token)
    const opened = await openContext(browser, world, { ...options, cookie: `${portalCookiePrefix(world.config)}${of.organization.id}=${token}` })
    const page: Page = await opened.context.newPage()
    const at = (path: string) => `${world.config.public_url.origin}/${of.organization.slug}/portal${path}`
    return { ...opened, page, member, at, go: (path: string) => page.goto(at(path)) }
  }
  return { team, enter }
}
export type Portals = ReturnType<typeof openPortals>
