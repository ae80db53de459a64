import { sql } from 'kysely'
import type { Hasher } from '../../../kernel/secrets.ts'
import { hashesOfAddresses, traces, type Discretion, type Person } from '../../../platform/personal.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { CustomerRow } from '../records/customer-rows.sql.ts'

/** Returns all addresses and external ids of a customer and its members, and the addresses of changes apart from them. */
export const personOf = async (tx: Tx, hasher: Hasher, { organization_id, id, external_id: own_external_id }: CustomerRow): Promise<Person> => {
  const { rows } = await sql<{ email: string | null; external_id: string | null; is_change: boolean }>`
    select lower(email) as email, external_id, false as is_change from customers where organization_id = ${organization_id} and id = ${id}
    union select lower(email), external_id, false from members where organization_id = ${organization_id} and customer_id = ${id}
    union select lower(a.email), null, true from customer_email_changes c, unnest(array[c.email, c.previous_email]) as a (email)
      where c.organization_id = ${organization_id} and c.customer_id = ${id}`.execute(tx.q)
  const known = rows.flatMap(({ email }) => email ?? [])
  return {
    organization_id,
    customer_id: id,
    addresses: rows.flatMap(({ email, is_change }) => (is_change ? [] : (email ?? []))),
    changed_addresses: rows.flatMap(({ email, is_change }) => (is_change && email !== null ? email : [])),
    address_hashes: hashesOfAddresses(hasher, organization_id, known),
    external_ids: rows.flatMap(({ external_id }) => external_id ?? []),
    own_external_id,
  }
}

/** Deletes the sign-in codes and sessions of a customer and its members. The caller must delete the credentials of the returned ids. */
export const deleteTraces = async (tx: Tx, { organization_id, customer_id, addresses }: Person): Promise<string[]> => {
  await sql`delete from customer_session_codes where organization_id = ${organization_id} and lower(email) = any(${addresses})`.execute(tx.q)
  const { rows } = await sql<{ id: string }>`
    delete from customer_sessions where organization_id = ${organization_id} and customer_id = ${customer_id} returning id`.execute(tx.q)
  return rows.map((session) => session.id)
}

interface ForgottenRow {
  readonly organization_id: string
  readonly customer_id: string
  readonly forgotten_at: Date
}

export const findForgotten = async (db: Db, organization_id: string, customer_id: string): Promise<ForgottenRow | undefined> => {
  const { rows } = await sql<ForgottenRow>`
    select organization_id, id as customer_id, forgotten_at from customers
    where organization_id = ${organization_id} and id = ${customer_id} and forgotten_at is not null`.execute(db.q)
  return rows[0]
}

/** Returns customers that were erased after `since`, in all organizations, and after the given customer. */
export const findForgottenSince = async (db: Db, since: Date, after: string | null, most: number): Promise<Omit<ForgottenRow, 'forgotten_at'>[]> => {
  const { rows } = await sql<ForgottenRow>`
    select organization_id, id as customer_id from customers
    where forgotten_at > ${since} and id > ${after ?? '00000000-0000-0000-0000-000000000000'}::uuid order by id limit ${most}`.execute(db.q)
  return rows
}

/** Empties the payloads of earlier events about the customer, and the webhook responses to them. The event rows stay. */
export const clearPayloads = async (
  tx: Tx,
  discretion: Discretion,
  { organization_id, customer_id, forgotten_at }: ForgottenRow,
  most: number,
): Promise<number> => {
  const { rows } = await sql<{ id: string }>`
    update events set payload = null, secrets_sealed = null where organization_id = ${organization_id} and (id, wall_at) in (
      select id, wall_at from events where organization_id = ${organization_id} and payload is not null and wall_at < ${forgotten_at}
        and (customer_id = ${customer_id} or resource_id in (${traces(discretion, organization_id, customer_id)})) limit ${most})
    returning id`.execute(tx.q)
  const ids = rows.map(({ id }) => id)
  await sql`update webhook_attempts set response = null where organization_id = ${organization_id} and event_id = any(${ids}::uuid[]) and response is not null`.execute(
    tx.q,
  )
  return ids.length
}

/** Empties stored answers that contain the customer or its records. Their idempotency keys stay, so a retry executes nothing again. */
export const clearAnswers = async (tx: Tx, discretion: Discretion, { organization_id, customer_id }: ForgottenRow): Promise<void> => {
  await sql`
    update idempotency_keys set body = null, sealed = true
    where mentions && array(${traces(discretion, organization_id, customer_id)})::uuid[] and body is not null`.execute(tx.q)
}
