import { organizationRoles, scopes, type OrganizationRole } from '@bursar/contract'
import { defaultAccount } from '../../../src/modules/billing/index.ts'
import { cookieName, startSession } from '../../../src/modules/identity/index.ts'
import { beginRun } from '../../harness/runs.ts'
import { noteSecrets } from '../../harness/secrets.ts'
import { openGrant } from '../../harness/visitor.ts'
import { openStripeTill } from '../../harness/processors.ts'
import { openClock, openWorld, type World } from '../../harness/world.ts'
import { openTestProcessor } from '../../../src/gateways/payments/test/processor.ts'
import { openWork } from './work.ts'
import { randomText } from '../../../src/kernel/secrets.ts'
import { openSeeds } from '../matrix/seeds.ts'
import { bearer } from '../matrix/targets.ts'

/** The credentials of a request. `session` is a browser session of the dashboard. */
export const credentialKinds = ['organization', 'personal', 'oauth', 'session', 'customer', 'member', 'none'] as const
export type CredentialKind = (typeof credentialKinds)[number]

/** Returns the headers that a dashboard sends with its session cookie. */
export const sessionHeaders = ({ config }: World, cookie: string): Record<string, string> => ({ cookie, origin: config.public_url.origin, 'bursar-csrf': '1' })

/** Opens a system, and a tenant with every kind of credential. */
export const openStage = async (settings: Record<string, string>) => {
  await beginRun(`fuzz${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
  const clock = openClock()
  const till = await openStripeTill(clock)
  const world = await openWorld({ clock, settings: { ...till.settings, ...settings } })
  await world.database.owner((owner) => owner.query('update deployment set organization_creation_open = true'))
  const seeds = openSeeds(world)

  /** Opens a tenant: an organization with people of every role, and a team customer with members. */
  const openTenant = async () => {
    const people = Object.fromEntries(await Promise.all(organizationRoles.map(async (role) => [role, await world.person()] as const))) as Record<
      OrganizationRole,
      Awaited<ReturnType<typeof world.person>>
    >
    const organization = await world.organization({ owner: people.owner.id })
    for (const role of organizationRoles) await seeds.join(organization.id, people[role].id, role)
    await world.database.owner((owner) =>
      owner.query(
        `update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{customer}', '{"allow_email_change": true}') where id = $1`,
        [organization.id],
      ),
    )
    await world.transact((tx) => defaultAccount(tx, world.platform.sealer, organization.id, 'test'))
    const crew = await seeds.openCrew(organization.id)
    const app = await openGrant(world, people.admin.id, [organization.id])
    const open: Record<CredentialKind, () => Promise<Record<string, string>>> = {
      organization: async () => bearer((await organization.token()).secret.reveal()),
      personal: async () => bearer((await people.admin.token()).secret.reveal()),
      oauth: async () => bearer((await app([...scopes])).reveal()),
      session: async () => {
        const secret = (await world.transact((tx) => startSession(tx, world.platform, people.admin.id))).reveal()
        noteSecrets(secret)
        return sessionHeaders(world, `${cookieName(world.config)}=${secret}`)
      },
      customer: () => crew.portalOf('customer'),
      member: () => crew.portalOf('owner'),
      none: async () => ({}),
    }
    const target = await seeds.furnish(organization.id, people.owner.id, people.admin.id)
    let held: Partial<Record<CredentialKind, Record<string, string>>> = {}
    return {
      organization,
      people,
      crew,
      /** Resources of the tenant by the name of the field that refers to them. */
      ids: {
        ...target,
        clock_id: target.test_clock_id,
        member_id: target.person_id,
        external_member_id: target.person_external_id,
        external_customer_id: target.customer_external_id,
      } as Readonly<Record<string, string>>,
      /** Returns the headers of a credential. Opens it with its first use. */
      headers: async (kind: CredentialKind) => (held[kind] ??= await open[kind]()),
      /** Replaces the credentials, because a request may have ended them. Restores the memberships. */
      renew: async (): Promise<void> => {
        held = {}
        await seeds.join(organization.id, people.admin.id, 'admin')
      },
    }
  }
  const work = openWork(world)
  const processor = openTestProcessor({ url: world.config.database_url, environment: 'sandbox', clock, log: world.base.log })
  const stage = {
    world,
    work,
    till,
    processor,
    seeds,
    tenant: await openTenant(),
    /** Opens another tenant, because requests may have changed the settings of this one. */
    replaceTenant: async (): Promise<void> => {
      stage.tenant = await openTenant()
    },
    close: async (): Promise<void> => {
      await work.close()
      await processor.close()
      await world.close()
      await till.close()
    },
  }
  return stage
}
export type Stage = Awaited<ReturnType<typeof openStage>>
export type Tenant = Stage['tenant']
