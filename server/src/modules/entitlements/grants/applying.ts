import type { Benefit } from '@bursar/contract'
import { CommunityRefusal, CommunitySilent, type Communities, type Place } from '../../../gateways/communities/communities.ts'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import { hours, later, minutes } from '../../../platform/clock.ts'
import { inTimeOf } from '../../../platform/clocks.sql.ts'
import { checkLease, releaseLease, type Lease } from '../../../platform/jobs/leases.sql.ts'
import type { BusinessTx, Tx } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { loadBenefits, type BenefitTable } from '../../catalog/index.ts'
import { clockOf } from '../../customers/index.ts'
import { holdPhase } from '../../organizations/index.ts'
import { accountMissing, accountOf, ended, isOutside, withoutAccess } from './giving.ts'
import { findGrant, isShared, saveGrants, wakeSharing, type GrantRow } from '../records/grants.sql.ts'
import { emitGrantEvents, type News } from './presenting.ts'

const tries = 20
/** Backoff: one minute, doubled with each attempt, up to six hours. */
const pause = (attempts: number): number => Math.min(minutes * 2 ** (attempts - 1), 6 * hours)

/** A pending call to an external community. If `spared` is true, the call is skipped because another grant still needs the account there. */
interface Errand {
  readonly call: 'admit' | 'dismiss'
  readonly place: string
  readonly account: string
  readonly spared: boolean
  /** True if the grant's properties record that the account was admitted. */
  readonly entered: boolean
}

interface LockedGrant {
  readonly tx: BusinessTx
  readonly scope: TenantScope
  readonly grant: GrantRow
  readonly benefit: BenefitTable
}

/**
 * Synchronizes an external community with a grant: admits the grant's account to its place, or removes the account. Saves
 * place and account before the call. After a crash, the next worker then knows which account to remove. Both calls are
 * idempotent. A call affects one account in one place, so all other accounts keep their access.
 */
export const applyGrant = async ({ transact, gateways }: Deps, lease: Lease): Promise<void> => {
  for (;;) {
    const errand = await transact(async (tx) => begin(await hold(tx, lease), lease))
    if (!errand) return
    const trouble = errand.spared ? undefined : await ask(gateways.communities, errand)
    const done = await transact(async (tx) => finish(await hold(tx, lease), lease, errand, trouble))
    if (done) return
  }
}

const hold = async (wall: Tx, lease: Lease): Promise<LockedGrant> => {
  const { organization_id, id } = lease
  const scope = within(organization_id, 'machine', await holdPhase(wall, organization_id))
  await checkLease(wall, lease)
  const grant = (await findGrant(wall, scope, id))!
  const [benefit] = await loadBenefits(wall, [{ tenant: organization_id, id: grant.benefit_id }])
  return { tx: await inTimeOf(wall, await clockOf(wall, { organization_id, customer_id: grant.buyer_customer_id })), scope, grant, benefit: benefit! }
}

/** Returns the next call to make. If none is needed, finishes the grant, releases the lease and returns undefined. */
const begin = async ({ tx, scope, grant, benefit }: LockedGrant, lease: Lease): Promise<Errand | undefined> => {
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
  await emitGrantEvents(tx, scope, news)
  await releaseLease(tx, lease, null)
  return undefined
}

/** Clears place and account of a grant whose recipient has not named an account yet. Sets the error that the account is missing. */
const waiting = (grant: GrantRow, now: Date, news: News[]): GrantRow => lost({ ...grant, place: null, account: null, error: accountMissing(now) }, now, news)

/** Marks a wanted grant as not granted and removes its access properties. Adds an `updated` event if these properties existed. */
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
    // A removal succeeds if the place does not exist. An unknown account counts as removed only if it was never
    // admitted, because an admitted account may have been renamed.
    if (call === 'dismiss' && error instanceof CommunityRefusal && (error.code === 'absent' || (error.code === 'unknown_account' && !entered))) return undefined
    if (error instanceof CommunityRefusal || error instanceof CommunitySilent) return error
    throw error
  }
}

/** Records the outcome of the call. Returns false if `applyGrant` must continue with the next call at once. */
const finish = async (
  { tx, scope, grant, benefit }: LockedGrant,
  lease: Lease,
  errand: Errand,
  trouble: CommunityRefusal | CommunitySilent | undefined,
): Promise<boolean> => {
  const now = tx.clock.business()
  const news: News[] = []
  const asked = grant.is_wanted && placeOf(benefit) === errand.place && accountOf(grant) === errand.account
  // The grant changed during the call, so `applyGrant` starts again from the new state of the grant.
  if (trouble ? asked !== (errand.call === 'admit') : errand.call === 'admit' && !asked) return false
  if (trouble) {
    const attempts = grant.attempts + 1
    const failed = { ...grant, attempts, error: errorOf(errand, trouble, now) }
    // If a repeated admission fails, the account keeps its access. If the first admission fails, the grant is marked as not granted.
    await saveGrants(tx, [errand.call === 'admit' && grant.granted_at === null ? lost(failed, now, news) : { ...failed, modified_at: now }])
    await emitGrantEvents(tx, scope, news)
    // Removals are retried without limit. Admissions stop after `tries` attempts.
    await releaseLease(tx, lease, attempts < tries || errand.call === 'dismiss' ? later(tx.clock.wall(), pause(attempts)) : null)
    return true
  }
  if (errand.call === 'dismiss') {
    const out = { ...grant, place: null, account: null, granted_at: grant.is_wanted ? null : grant.granted_at, attempts: 0 }
    await saveGrants(tx, [grant.is_wanted ? out : ended({ ...out, modified_at: now }, now, news)])
    if (!errand.spared) await wakeSharing(tx, grant, errand.place, errand.account)
    await emitGrantEvents(tx, scope, news)
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
  await emitGrantEvents(tx, scope, news)
  await releaseLease(tx, lease, null)
  return true
}

const sorted = (record: Readonly<Record<string, unknown>>) => Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1))

type Properties<K extends Benefit['type']> = Extract<Benefit, { type: K }>['properties']

/** Returns the external place that a benefit gives access to, serialized as JSON. Returns null if the benefit is internal or deleted. */
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

/** Properties that a grant stores about the place its account was admitted to. */
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
  message: `${call === 'admit' ? 'Admitting the account' : 'Removing the account'} failed: ${trouble.message}`,
  timestamp: now.toISOString(),
})
