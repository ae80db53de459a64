import type { MemberReadiness } from '@bursar/contract'
import type { OrganizationActor, TenantScope, UserActor } from '../../../kernel/actors.ts'
import { days, type Clock } from '../../../platform/clock.ts'
import type { Db, Transact } from '../../../platform/postgres/postgres.ts'
import type { Readiness } from '../../handlers.ts'
import { chooseOne, permit } from '../../organizations/index.ts'
import { addTallies, listIntegrations, listListeners, type Integration, type Listener, type Tally } from './readiness.sql.ts'

type Reason = MemberReadiness['because'][number]

/** Time for which a finding counts, from its last occurrence on. */
const counts = 7 * days
/** Maximum number of findings kept in memory between two writes. Further new findings are dropped. */
const most = 10_000

/** Text for the seller about each finding: its meaning, and the action to take. */
const says: Record<Reason['finding'], string> = {
  fetched_holder:
    'It fetched a customer that only holds seats. After the switch that id answers 404. Use the member of the seat, and translate old ids with the id map.',
  filtered_by_holder: 'It filtered a list by a seat holder as a customer. After the switch that finds nothing. Filter by member_id.',
  assigned_by_customer: 'It named a seat holder as a customer. After the switch seat holders are members. Give email, member_id or external_member_id.',
  session_without_member: 'It opened a session of a customer who buys seats without naming a member. After the switch that is rejected. Give member_id.',
  listens_without_members:
    'It receives events of seats, benefits or customers, but not of members. Subscribe it to member.created, member.updated and member.deleted.',
}

/** Counts findings in memory, so that no request waits for a write. A crash loses at most the counts since the last write. */
export const openReadiness = (transact: Transact, clock: Clock): Readiness => {
  let tallies = new Map<string, Tally>()
  return {
    note: (organization_id, actor, finding, sample) => {
      const { kind, id } = integrationOf(actor)
      const key = `${organization_id} ${kind} ${id} ${finding}`
      const known = tallies.get(key)
      if (!known && tallies.size >= most) return
      tallies.set(key, { organization_id, kind, id, finding, count: (known?.count ?? 0) + 1, last_seen_at: clock.wall(), sample })
    },
    flush: async () => {
      if (tallies.size === 0) return
      const counted = [...tallies.values()]
      tallies = new Map()
      await transact((tx) => addTallies(tx, counted))
    },
  }
}

/**
 * Maps an actor to the integration that the seller has to change: a token, an app or a user. A browser session counts
 * for its user, because sessions are short-lived.
 */
const integrationOf = (actor: OrganizationActor | UserActor): Pick<Tally, 'kind' | 'id'> => {
  if (actor.kind === 'organization') return { kind: 'organization_token', id: actor.credential_id }
  if (actor.via === 'oauth') return { kind: 'oauth_client', id: actor.client_id! }
  return actor.via === 'session' ? { kind: 'session', id: actor.user_id } : { kind: 'personal_token', id: actor.credential_id }
}

/** Reports for each integration whether it is ready for the switch, and the findings if it is not. */
export const readReadiness = async (
  db: Db,
  scope: TenantScope,
  wanted: string | undefined,
  now: Date,
): Promise<{ ready: boolean; items: MemberReadiness[] }> => {
  const organization_id = chooseOne(scope, wanted === undefined ? [] : [wanted])
  permit(scope, organization_id, 'organization:manage')
  const found = Map.groupBy(await listIntegrations(db, organization_id, now), ({ kind, id }) => `${kind} ${id}`)
  const items = [...[...found.values()].map((rows) => judge(rows, now)), ...(await listListeners(db, organization_id)).map(judgeListener)]
  return { ready: items.every(({ ready }) => ready), items }
}

const judge = (rows: readonly Integration[], now: Date): MemberReadiness => {
  const { kind, id, name, last_seen_at } = rows[0]!
  const because = rows.flatMap(({ finding, count, last_seen_at, sample }) =>
    finding === null || finding === 'seen' ? [] : [{ finding, says: says[finding], count, last_seen_at, sample }],
  )
  const ready = because.every((reason) => now.getTime() - reason.last_seen_at.getTime() > counts)
  return { kind, id, name, ready, because, last_seen_at }
}

const judgeListener = ({ id, name, since, events }: Listener): MemberReadiness => {
  const about = events.find((kind) => /^(customer_seat|benefit_grant|customer)\./.test(kind))
  const because: Reason[] =
    about === undefined || events.some((kind) => kind.startsWith('member.'))
      ? []
      : [{ finding: 'listens_without_members', says: says.listens_without_members, count: 1, last_seen_at: since, sample: about }]
  return { kind: 'webhook_endpoint', id, name, ready: because.length === 0, because, last_seen_at: null }
}
