import type { MemberReadiness } from '@bursar/contract'
import { sql } from 'kysely'
import type { Finding } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'

export interface Tally {
  readonly organization_id: string
  readonly kind: Exclude<MemberReadiness['kind'], 'webhook_endpoint'>
  readonly id: string
  readonly finding: Finding | 'seen'
  readonly count: number
  readonly last_seen_at: Date
  readonly sample: string
}

/** Adds the counts to the stored findings in one statement. Orders the rows by key, so that two concurrent writers cannot deadlock. */
export const addTallies = async (tx: Tx, tallies: readonly Tally[]): Promise<void> => {
  const column = <K extends keyof Tally>(name: K) => tallies.map((tally) => tally[name])
  await sql`
    insert into member_readiness as r (organization_id, kind, id, finding, count, last_seen_at, sample)
    select * from unnest(${column('organization_id')}::uuid[], ${column('kind')}::text[], ${column('id')}::text[], ${column('finding')}::text[],
      ${column('count')}::bigint[], ${column('last_seen_at')}::timestamptz[], ${column('sample')}::text[])
    order by 1, 2, 3, 4
    on conflict (organization_id, kind, id, finding) do update
      set count = r.count + excluded.count, last_seen_at = greatest(r.last_seen_at, excluded.last_seen_at), sample = excluded.sample`.execute(tx.q)
}

export interface Integration {
  readonly kind: Tally['kind']
  readonly id: string
  readonly name: string
  /** Null if no finding was recorded for the integration. */
  readonly finding: Tally['finding'] | null
  readonly count: number
  readonly last_seen_at: Date
  readonly sample: string
}

/**
 * Lists the findings of every active integration since the migration began, latest first. Also lists organization
 * tokens without findings. Revoked tokens and users who left the organization are excluded, because they have no access
 * any more. The identity module owns the token, app and user tables. Only names are read from them here.
 */
export const listIntegrations = async (db: Db, organization_id: string, now: Date): Promise<Integration[]> => {
  const alive = sql`t.revoked_at is null and (t.expires_at is null or t.expires_at > ${now})`
  const belongs = sql`join organization_members o on o.organization_id = ${organization_id} and o.user_id = u.id`
  const { rows } = await sql<Integration>`
    with called as (
      select 'organization_token' as kind, t.id::text as id, t.comment as name from organization_access_tokens t where t.organization_id = ${organization_id} and ${alive}
      union all
      select 'personal_token', t.id::text, u.email from personal_access_tokens t join users u on u.id = t.user_id and u.deleted_at is null ${belongs} where ${alive}
      union all
      select 'session', u.id::text, u.email from users u ${belongs} where u.deleted_at is null
      union all
      select 'oauth_client', c.client_id, c.client_name from oauth_clients c
      where c.deleted_at is null and c.client_id in (select id from member_readiness where organization_id = ${organization_id} and kind = 'oauth_client')
    )
    select c.kind, c.id, c.name, r.finding, r.count, r.last_seen_at, r.sample
    from called c left join member_readiness r on r.organization_id = ${organization_id} and r.kind = c.kind and r.id = c.id
      and r.last_seen_at >= coalesce((select started_at from member_migrations where organization_id = ${organization_id}), '-infinity')
    where r.finding is not null or c.kind = 'organization_token'
    order by c.kind, c.name, c.id, r.last_seen_at desc, r.finding`.execute(db.q)
  return rows
}

export interface Listener {
  readonly id: string
  readonly name: string
  readonly since: Date
  readonly events: readonly string[]
}

/** Lists the webhook endpoints of an organization with the event kinds that they subscribe to. */
export const listListeners = async (db: Db, organization_id: string): Promise<Listener[]> => {
  const { rows } = await sql<Listener>`
    select id, coalesce(name, url) as name, coalesce(modified_at, created_at) as since, events from webhook_endpoints
    where organization_id = ${organization_id} and deleted_at is null order by 2, 1`.execute(db.q)
  return rows
}
