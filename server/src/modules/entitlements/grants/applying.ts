import type { Benefit } from '@bursar/contract'
import { CommunityRefusal, CommunitySilent, type Communities, type Place } from '../../../gateways/communities/communities.ts'
import { within, type Reach } from '../../../kernel/actors.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { Tx } from '../../../platform/postgres/postgres.ts'
import type { Means } from '../../handlers.ts'
import { loadBenefits, type BenefitTable } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { accountMissing, accountOf, ended, isOutside, withoutAccess } from './giving.ts'
import { findGrant, isShared, saveGrants, wakeSharing, type GrantRow } from './grants.sql.ts'
import { tell, type News } from './presenting.ts'

const tries = 20
/** A minute, then twice as long each time, up to six hours. */
const pause = (attempts: number): number => Math.min(minutes * 2 ** (attempts - 1), 6 * hours)

/** Something to be asked of somebody outside; `spared`: it needs no asking, because the account is to stay there for another grant. */
interface Errand {
  readonly call: 'admit' | 'dismiss'
  readonly place: string
  readonly account: string
  readonly spared: boolean
  /** Whether the account is known to have been let in. */
  readonly entered: boolean
}

interface Held {
  readonly tx: Tx
  readonly reach: Reach
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

/**
 * Brings the world outside to where a grant says it is: its account is let in where it is to be, and shown out where it
 * is not to be any more. Where and who is written down before anybody is let in, so that whoever comes after a crash
 * knows whom to show out; letting in and showing out can be repeated. What happens is per account and place: showing one
 * out leaves everybody else where they are.
 */
export const apply = async ({ transact, gateways }: Means, lease: Lease): Promise<void> => {
  for (;;) {
    const errand = await transact(async (tx) => begin(await hold(tx, lease), lease))
    if (!errand) return
    const trouble = errand.spared ? undefined : await ask(gateways.communities, errand)
    const done = await transact(async (tx) => finish(await hold(tx, lease), lease, errand, trouble))
    if (done) return
  }
}

const hold = async (wall: Tx, lease: Lease): Promise<Held> => {
  const { organization_id, id } = lease
  const reach = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  await checkLease(wall, lease)
  const grant = (await findGrant(wall, reach, id))!
  const [benefit] = await loadBenefits(wall, [{ tenant: organization_id, id: grant.benefit_id }])
  return { tx: await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: grant.buyer_customer_id })), reach, grant, benefit: benefit! }
}

/** What is to be done first; nothing, where everything is as it should be. */
const begin = async ({ tx, reach, grant, benefit }: Held, lease: Lease): Promise<Errand | undefined> => {
  const place = grant.is_wanted ? placeOf(benefit) : null
  const account = accountOf(grant)
  if (grant.place !== null && grant.account !== null && !(grant.place === place && grant.account === account))
    return { call: 'dismiss', place: grant.place, account: grant.account, spared: await isShared(tx, grant), entered: withoutAccess(grant.properties).said }
  if (place !== null && account !== null) {
    await saveGrants(tx, [{ ...grant, place, account }])
    return { call: 'admit', place, account, spared: false, entered: false }
  }
  const now = tx.clock.business()
  const news: News[] = []
  await saveGrants(tx, [grant.is_wanted ? waiting(grant, now, news) : ended(grant, now, news)])
  await tell(tx, reach, news)
  await releaseLease(tx, lease, null)
  return undefined
}

/** Nobody says whom to let in: it waits for that. */
const waiting = (grant: GrantRow, now: Date, news: News[]): GrantRow => lost({ ...grant, place: null, account: null, error: accountMissing(now) }, now, news)

/** It is to be there and is not: whoever heard that it was hears of it. */
const lost = (grant: GrantRow, now: Date, news: News[]): GrantRow => {
  const { rest, said } = withoutAccess(grant.properties)
  const after = { ...grant, granted_at: null, modified_at: now, properties: rest }
  if (said) news.push({ grant: after, became: 'updated', before: grant.properties })
  return after
}

const ask = async (communities: Communities, { call, place, account, entered }: Errand): Promise<CommunityRefusal | CommunitySilent | undefined> => {
  try {
    await communities[call](JSON.parse(place) as Place, account)
    return undefined
  } catch (error) {
    // Nobody can be shown out of what is not there. One that was let in and is unknown may only have another name by now.
    if (call === 'dismiss' && error instanceof CommunityRefusal && (error.code === 'absent' || (error.code === 'unknown_account' && !entered))) return undefined
    if (error instanceof CommunityRefusal || error instanceof CommunitySilent) return error
    throw error
  }
}

/** Writes down what came of it; true when nothing is left to do for now. */
const finish = async (
  { tx, reach, grant, benefit }: Held,
  lease: Lease,
  errand: Errand,
  trouble: CommunityRefusal | CommunitySilent | undefined,
): Promise<boolean> => {
  const now = tx.clock.business()
  const news: News[] = []
  const asked = grant.is_wanted && placeOf(benefit) === errand.place && accountOf(grant) === errand.account
  // Somebody thought otherwise meanwhile: then this is only where it starts from.
  if (trouble ? asked !== (errand.call === 'admit') : errand.call === 'admit' && !asked) return false
  if (trouble) {
    const attempts = grant.attempts + 1
    const failed = { ...grant, attempts, error: errorOf(errand, trouble, now) }
    // Who was let in before is still there; who could not be let in is not.
    await saveGrants(tx, [errand.call === 'admit' && grant.granted_at === null ? lost(failed, now, news) : { ...failed, modified_at: now }])
    await tell(tx, reach, news)
    // Whoever is to be shown out is, however long it takes.
    await releaseLease(tx, lease, attempts < tries || errand.call === 'dismiss' ? later(tx.clock.wall(), pause(attempts)) : null)
    return true
  }
  if (errand.call === 'dismiss') {
    const out = { ...grant, place: null, account: null, granted_at: grant.is_wanted ? null : grant.granted_at, attempts: 0 }
    await saveGrants(tx, [grant.is_wanted ? out : ended({ ...out, modified_at: now }, now, news)])
    if (!errand.spared) await wakeSharing(tx, grant, errand.place, errand.account)
    await tell(tx, reach, news)
    if (!grant.is_wanted) await releaseLease(tx, lease, null)
    return !grant.is_wanted
  }
  const properties = { ...grant.properties, ...seenOf(benefit, errand.account) }
  const changed = JSON.stringify(sorted(properties)) !== JSON.stringify(sorted(grant.properties))
  const given = {
    ...grant,
    properties,
    granted_at: grant.granted_at ?? now,
    revoked_at: null,
    error: null,
    attempts: 0,
    modified_at: changed || grant.granted_at === null ? now : grant.modified_at,
  }
  if (!withoutAccess(grant.properties).said) news.push({ grant: given, became: 'created' })
  else if (changed) news.push({ grant: given, became: 'updated', before: grant.properties })
  await saveGrants(tx, [given])
  await tell(tx, reach, news)
  await releaseLease(tx, lease, null)
  return true
}

const sorted = (record: Readonly<Record<string, unknown>>) => Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1))

type Properties<K extends Benefit['type']> = Extract<Benefit, { type: K }>['properties']

/** Where a benefit lets people in, as one text that names the place. */
const placeOf = (benefit: BenefitTable): string | null => {
  if (!isOutside(benefit) || benefit.deleted_at !== null) return null
  const place = ((): Place => {
    if (benefit.type === 'discord') {
      const { guild_id, role_id } = benefit.properties as Properties<'discord'>
      return { kind: 'discord', guild_id, role_id }
    }
    if (benefit.type === 'github_repository') {
      const { repository_owner, repository_name, permission } = benefit.properties as Properties<'github_repository'>
      return { kind: 'github', repository_owner, repository_name, permission }
    }
    const { slack_integration_id, channel_name_template } = benefit.properties as Properties<'slack_shared_channel'>
    return { kind: 'slack', workspace_id: slack_integration_id, channel_id: channel_name_template }
  })()
  return JSON.stringify(place)
}

/** What the grant remembers of where its recipient was let in. */
const seenOf = (benefit: BenefitTable, granted_account_id: string): Readonly<Record<string, unknown>> => {
  if (benefit.type === 'discord') {
    const { guild_id, role_id } = benefit.properties as Properties<'discord'>
    return { guild_id, role_id, granted_account_id }
  }
  if (benefit.type === 'github_repository') {
    const { repository_owner, repository_name, permission } = benefit.properties as Properties<'github_repository'>
    return { repository_owner, repository_name, permission, granted_account_id }
  }
  const { channel_name_template } = benefit.properties as Properties<'slack_shared_channel'>
  return { channel_id: channel_name_template, channel_name: channel_name_template }
}

const errorOf = ({ call }: Errand, trouble: CommunityRefusal | CommunitySilent, now: Date) => ({
  type: trouble instanceof CommunityRefusal ? 'BenefitRefusedError' : 'BenefitRetriableError',
  message: `${call === 'admit' ? 'Letting the account in' : 'Showing the account out'} failed: ${trouble.message}`,
  timestamp: now.toISOString(),
})
