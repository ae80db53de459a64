import type { MemberReadiness } from '@bursar/contract'
import type { OrganizationActor, Reach, UserActor } from '../../../kernel/actors.ts'
import { days, type Clock } from '../../../platform/clock.ts'
import type { Db, Transact } from '../../../platform/postgres/postgres.ts'
import type { Readiness } from '../../handlers.ts'
import { chooseOne, permit } from '../../organizations/index.ts'
import { addTallies, listIntegrations, listListeners, type Integration, type Listener, type Tally } from './readiness.sql.ts'

type Reason = MemberReadiness['because'][number]

/** So long something counts that was not seen again. */
const counts = 7 * days
/** So many are remembered between two times of writing them down: a flood of them tells nothing more. */
const most = 10_000

/** What each finding means, and what to do instead. */
const says: Record<Reason['finding'], string> = {
  fetched_holder:
    'It asked for a customer that only holds seats. After the switch that id answers 404: go by the member of the seat, and map old ids by the id map.',
  filtered_by_holder: 'It filtered a list by a seat holder as a customer. After the switch that finds nothing: filter by member_id.',
  assigned_by_customer:
    'It named whoever is to have a seat as a customer. After the switch seat holders are members: give email, member_id or external_member_id.',
  session_without_member: 'It opened a session of a customer who buys seats without saying for whom. After the switch that is refused: give member_id.',
  listens_without_members:
    'It receives what happens to seats, benefits or customers, but not to members: subscribe it to member.created, member.updated and member.deleted.',
}

/** Counts in memory; a crash loses at most what was counted since the last time. No request waits for it. */
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

/** Whoever acts, as somebody who has to be changed: a token, an app, or a person in a browser, whose sessions come and go. */
const integrationOf = (actor: OrganizationActor | UserActor): Pick<Tally, 'kind' | 'id'> => {
  if (actor.kind === 'organization') return { kind: 'organization_token', id: actor.credential_id }
  if (actor.via === 'oauth') return { kind: 'oauth_client', id: actor.client_id! }
  return actor.via === 'session' ? { kind: 'session', id: actor.user_id } : { kind: 'personal_token', id: actor.credential_id }
}

/** Who is ready for the switch, and who is not, and why. */
export const readReadiness = async (db: Db, reach: Reach, wanted: string | undefined, now: Date): Promise<{ ready: boolean; items: MemberReadiness[] }> => {
  const organization_id = chooseOne(reach, wanted === undefined ? [] : [wanted])
  permit(reach, organization_id, 'organization:manage')
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
