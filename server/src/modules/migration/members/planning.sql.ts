import type { MemberMigrationProblem } from '@bursar/contract'
import { sql, type RawBuilder } from 'kysely'
import type { Db } from '../../../platform/postgres/postgres.ts'

/**
 * The plan of the migration: which people become members of which customers, and which seats and grants they get. The
 * plan is a set of SQL relations over the current data. The dry run counts and shows the relations. The background work
 * of phase 1 applies them in batches. All decisions are made here, so both give the same result.
 */

/** The organization id, or an SQL expression for it. */
export type Whose = string | RawBuilder<string>

/** Selects the part of the plan to compute: all rows, or only the rows with these ids. */
export type Scope = 'all' | { readonly owners: readonly string[] } | { readonly seats: readonly string[] } | { readonly grants: readonly string[] }

const none = sql`false`
const some = (column: string, ids: readonly string[]) => sql`${sql.ref(column)} = any(${ids}::uuid[])`

interface Place {
  /** The columns of an index in index order, with the values to find. */
  readonly at: Readonly<Record<string, string>>
  /** The condition of the partial index. */
  readonly of: string
  readonly and?: string
  readonly most?: number
}

/**
 * Selects the members that have these values in the columns of an index. With a plain equality filter, the planner may
 * choose any index that begins with the organization. The planner has no statistics while members are being created.
 * Reading the first rows from the given values on, ordered by the columns, forces this index.
 */
const membersAt = ({ at, of, and = 'true', most = 1 }: Place) => {
  const columns = Object.keys(at).join(', ')
  const same = Object.entries(at).map(([column, value]) => `${column} = ${value}`)
  return `select m.id, m.email from (
    select m.id, m.organization_id, m.customer_id, m.email, m.external_id, m.role, m.deleted_at from members m
    where (${columns}) >= (${Object.values(at).join(', ')}) and ${of} order by ${columns} limit ${most}
  ) m where ${same.join(' and ')} and ${and}`
}

/** Condition for a grant that is active or will be given soon. */
const live = (table: string) => sql.raw(`(${table}.is_wanted or ${table}.granted_at is not null)`)

/** Conditions for seats and grants without a member. Their text must be identical to the conditions of the partial indexes. */
export const unpreparedSeat = (table: string) => sql.raw(`(${table}.member_id is null and ${table}.status <> 'revoked')`)
export const unpreparedGrant = (table: string) => sql`(${sql.raw(`${table}.member_id is null and ${table}.holder_customer_id is not null`)} and ${live(table)})`

/**
 * Selects the grants that the holders of some seats have through the same purchases. Looks up the grants seat by seat
 * with an index. Does not rely on table statistics, because freshly imported rows have not been analyzed.
 */
export const grantsOfSeats = (organization_id: Whose, seats: RawBuilder<unknown>, condition: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  select distinct g.id, g.buyer_customer_id, g.holder_customer_id, g.is_wanted, g.granted_at
  from (select distinct holder_customer_id, subscription_id, order_id, member_id from seats s where organization_id = ${organization_id} and ${seats} offset 0) s
  cross join lateral (select * from benefit_grants g where g.organization_id = ${organization_id} and g.holder_customer_id = s.holder_customer_id offset 0) g
  where (g.subscription_id = s.subscription_id or g.order_id = s.order_id) and ${condition}`

/**
 * Condition for grants that are prepared together with their seat. Revoked grants are included, because they may be
 * granted again. Otherwise a member could have a seat without its grants.
 */
const beside = sql.raw('(g.member_id is null and g.holder_customer_id is not null)')

const pairs = (organization_id: Whose, scope: Scope) => {
  const seats = scope === 'all' ? sql`true` : 'seats' in scope ? some('s.id', scope.seats) : none
  const ofSeats = grantsOfSeats(organization_id, sql`${unpreparedSeat('s')} and ${seats}`, scope === 'all' ? sql`${beside} and not ${live('g')}` : beside)
  const grants = scope === 'all' ? sql`true` : 'grants' in scope ? some('g.id', scope.grants) : none
  return sql`
    select 1 as rank, 'seat' as kind, s.id, s.buyer_customer_id as buyer, s.holder_customer_id as holder, s.email as address, true as is_live
    from seats s where s.organization_id = ${organization_id} and ${unpreparedSeat('s')} and ${seats}
    union all
    select 2, 'grant', g.id, g.buyer_customer_id, g.holder_customer_id, null, ${live('g')} from (${ofSeats}) g
    union all
    select 2, 'grant', g.id, g.buyer_customer_id, g.holder_customer_id, null, true
    from benefit_grants g where g.organization_id = ${organization_id} and ${unpreparedGrant('g')} and ${grants}`
}

const living = 'm.deleted_at is null'

const ownerOf = (organization: string, customer: string, and?: string) =>
  sql.raw(membersAt({ at: { 'm.organization_id': organization, 'm.customer_id': customer }, of: `m.role = 'owner' and ${living}`, ...(and ? { and } : {}) }))

const addressed = (organization: string, customer: string, email: string) =>
  sql.raw(membersAt({ at: { 'm.organization_id': organization, 'm.customer_id': customer, 'lower(m.email)': `lower(${email})` }, of: living }))

const called = (organization: string, customer: string, external_id: string) =>
  sql.raw(
    membersAt({
      at: { 'm.organization_id': organization, 'm.customer_id': customer, 'm.external_id': external_id },
      of: `m.external_id is not null and ${living}`,
    }),
  )

/** Selects members of a customer other than the owner. Reads at most two rows, because one of them may be the owner. */
const others = (organization: string, customer: string) =>
  membersAt({ at: { 'm.organization_id': organization, 'm.customer_id': customer }, of: living, and: `m.role <> 'owner'`, most: 2 })

/** Condition for customers without an owner. */
const ownerless = sql`(c.deleted_at is null and not exists (${ownerOf('c.organization_id', 'c.id')}))`

const owners = (organization_id: Whose, scope: Scope) => {
  const wanted = scope === 'all' ? sql`true` : 'owners' in scope ? some('c.id', scope.owners) : none
  return sql`
    select c.id as customer_id, c.email, c.name, c.external_id,
      exists (${addressed('c.organization_id', 'c.id', 'c.email')}) as taken
    from customers c where c.organization_id = ${organization_id} and ${ownerless} and ${wanted}`
}

/** Computes the id of a new member from the buyer and the email address. Uses another id if a deleted member already has this one. */
const idOf = (buyer: string, email: string) =>
  sql.raw(`(select case when exists (${membersAt({ at: { 'm.organization_id': 'o.id', 'm.id': 'i.id' }, of: 'true', and: 'm.deleted_at is not null' })})
    then member_id_of(o.id, ${buyer}, ${email} || ' again') else i.id end from (select member_id_of(o.id, ${buyer}, ${email}) as id offset 0) i)`)

/**
 * Returns the relations of the plan.
 * `owner`: customers that get an owner.
 * `person`: each seat and grant with its holder as a member of the buyer. The buyer's own seat goes to the owner. Other
 * seats go to the buyer's member with the holder's email address, or else to a new member.
 * `made`: the new members, each once, with the name of the holder.
 */
export const relations = (organization_id: Whose, scope: Scope): RawBuilder<unknown> => sql`
  o as (select id from organizations where id = ${organization_id}),
  owner as materialized (${owners(organization_id, scope)}),
  pair as (${pairs(organization_id, scope)}),
  person as materialized (
    select p.rank, p.kind, p.id, p.buyer, p.holder, p.is_live, h.deleted_at is not null as is_deleted, e.email, h.name, h.external_id,
      case when e.email is null then null else coalesce(own.id, known.id, ${idOf('p.buyer', 'e.email')}) end as member_id,
      e.email is not null and own.id is null and known.id is null as is_new
    from pair p cross join o
    cross join lateral (select c.email from customers c where c.organization_id = o.id and c.id = p.buyer offset 0) b
    left join lateral (select c.email, c.name, c.external_id, c.deleted_at from customers c where c.organization_id = o.id and c.id = p.holder offset 0) h on true
    left join lateral (${ownerOf('o.id', 'p.buyer', 'p.holder = p.buyer')}) own on true
    left join lateral (${ownerOf('o.id', 'p.holder', 'p.holder <> p.buyer and h.email is null')}) ho on true
    cross join lateral (select case when p.holder = p.buyer then coalesce(own.email, b.email) when h.deleted_at is null then coalesce(h.email, ho.email, p.address) end as email) e
    left join lateral (${addressed('o.id', 'p.buyer', 'e.email')}) known on true
  ),
  named as (
    select distinct on (member_id) * from (
      select ${idOf('w.customer_id', 'w.email')} as member_id, 0 as rank, w.customer_id as id, w.customer_id, w.email, w.name, w.external_id, 'owner' as role
      from owner w cross join o where w.email is not null and not w.taken
      union all
      select p.member_id, p.rank, p.id, p.buyer, p.email, p.name, p.external_id, 'member' from person p where p.is_new
    ) n order by member_id, rank, id
  ),
  made as materialized (
    select n.*, n.external_id is not null and (
      exists (${called('o.id', 'n.customer_id', 'n.external_id')})
      or row_number() over (partition by n.customer_id, n.external_id order by n.rank, n.id) > 1) as name_taken
    from named n cross join o
  )`

const refusals = {
  no_email:
    'The e-mail address of the holder is unknown. Revoke the seat (DELETE /v1/customer-seats/{id}), or give its customer an address, and prepare again.',
  deleted: 'The customer who held this seat was deleted and has no benefits from it. Revoke the seat (DELETE /v1/customer-seats/{id}), and prepare again.',
  ownerless: 'This customer has no e-mail address, so no owner can be created. Give it one, or add a member as its owner.',
  owner_taken: 'A member with the address of this customer is not its owner. Make that member the owner.',
  name_taken: 'Another member of the same customer already has the external id of this holder. This member is created without one.',
}

/** Selects the problems of the plan: those that block the switch, and those where some data is lost. */
export const problems = sql`
  select kind as resource, id, ${sql.lit(refusals.no_email)} as problem, true as blocks from person where member_id is null and is_live and not is_deleted
  union all select kind, id, ${sql.lit(refusals.deleted)}, true from person where member_id is null and is_live and is_deleted
  union all select 'customer', customer_id, ${sql.lit(refusals.ownerless)}, false from owner where email is null
  union all select 'customer', customer_id, ${sql.lit(refusals.owner_taken)}, false from owner where email is not null and taken
  union all select 'member', member_id, ${sql.lit(refusals.name_taken)}, false from made where name_taken`

/** Conditions under which a seat holder stays a customer. The keys are the reasons that the plan shows. */
const belongings: Readonly<Record<string, string>> = {
  subscriptions: 'exists (select from subscriptions x where x.organization_id = c.organization_id and x.customer_id = c.id offset 0)',
  orders: 'exists (select from orders x where x.organization_id = c.organization_id and x.customer_id = c.id offset 0)',
  'seats for others': 'exists (select from seats x where x.organization_id = c.organization_id and x.buyer_customer_id = c.id offset 0)',
  benefits:
    'exists (select from benefit_grants x where x.organization_id = c.organization_id and x.buyer_customer_id = c.id and x.holder_customer_id is null offset 0)',
  cards: 'exists (select from payment_methods x where x.organization_id = c.organization_id and x.customer_id = c.id and x.deleted_at is null offset 0)',
  usage: 'c.first_user_event_at is not null',
  people: `(c.type = 'team' or exists (${others('c.organization_id', 'c.id')}))`,
}

/**
 * Selects how the member phase view will show each customer. `pure`: the customer only holds purchases of others.
 * `team`: the customer bought seats. `offset 0` makes each check run once, along an index.
 */
export const marks = (organization_id: Whose, wanted: RawBuilder<unknown> = sql`true`): RawBuilder<unknown> => sql`
  select c.id, c.holds, c.holds and c.because = '{}' as pure, c.team, c.because from (
    select c.id,
      (exists (select from seats x where x.organization_id = c.organization_id and x.holder_customer_id = c.id and x.buyer_customer_id <> c.id offset 0)
        or exists (select from benefit_grants x where x.organization_id = c.organization_id and x.holder_customer_id = c.id and x.buyer_customer_id <> c.id offset 0)) as holds,
      (exists (select from subscriptions x where x.organization_id = c.organization_id and x.customer_id = c.id and x.seats is not null offset 0)
        or exists (select from orders x where x.organization_id = c.organization_id and x.customer_id = c.id and x.seats is not null offset 0)) as team,
      array_remove(array[${sql.raw(
        Object.entries(belongings)
          .map(([name, has]) => `case when ${has} then '${name}' end`)
          .join(', '),
      )}], null) as because
    from customers c where c.organization_id = ${organization_id} and c.deleted_at is null and ${wanted} offset 0
  ) c`

interface Planned {
  readonly members: readonly { id: string; customer_id: string; email: string; name: string | null; external_id: string | null; role: 'owner' | 'member' }[]
  readonly seats: readonly { id: string; member_id: string; customer_id_before: string; customer_id_after: string }[]
  readonly grants: readonly { id: string; member_id: string; customer_id_before: string; customer_id_after: string; twin: boolean }[]
  readonly gone: readonly string[]
  readonly staying: readonly { id: string; because: readonly string[] }[]
  readonly teams: readonly string[]
  readonly problems: readonly MemberMigrationProblem[]
  readonly counts: Readonly<Record<string, number>>
}

/** Reads the plan in one statement: all counts, and the first rows of each kind. */
export const readPlan = async (db: Db, organization_id: string, most: number): Promise<Planned> => {
  const first = (what: RawBuilder<unknown>, order: string) =>
    sql`(select coalesce(jsonb_agg(to_jsonb(t)), '[]') from (select * from (${what}) t order by ${sql.raw(order)} limit ${most}) t)`
  const planned = (kind: string, more = '') =>
    sql.raw(
      `select p.id, p.member_id, coalesce(p.holder, p.buyer) as customer_id_before, p.buyer as customer_id_after${more} from person p where p.kind = '${kind}' and p.member_id is not null`,
    )
  const twin = `, exists (select from benefit_grants g join benefit_grants t on t.organization_id = g.organization_id and t.buyer_customer_id = g.buyer_customer_id and t.benefit_id = g.benefit_id
    and t.subscription_id is not distinct from g.subscription_id and t.order_id is not distinct from g.order_id and t.member_id = p.member_id and t.id <> g.id
    where g.organization_id = (select id from o) and g.id = p.id) as twin`
  const { rows } = await sql<Planned>`
    with ${relations(organization_id, 'all')}, mark as materialized (${marks(organization_id)}), trouble as materialized (${problems})
    select
      ${first(sql`select member_id as id, customer_id, email, name, case when name_taken then null else external_id end as external_id, role from made`, 'id')} as members,
      ${first(planned('seat'), 'id')} as seats,
      ${first(planned('grant', twin), 'id')} as grants,
      (select coalesce(jsonb_agg(id), '[]') from (select id from mark where pure order by id limit ${most}) t) as gone,
      ${first(sql`select id, because from mark where holds and not pure`, 'id')} as staying,
      (select coalesce(jsonb_agg(id), '[]') from (select m.id from mark m join customers c on c.organization_id = ${organization_id} and c.id = m.id and c.type <> 'team' where m.team order by m.id limit ${most}) t) as teams,
      ${first(sql`select * from trouble`, 'resource, id, problem')} as problems,
      jsonb_build_object(
        'owners', (select count(*) from made where role = 'owner'),
        'members', (select count(*) from made where role = 'member'),
        'seats', (select count(*) from person where kind = 'seat' and member_id is not null),
        'grants', (select count(*) from person where kind = 'grant' and member_id is not null),
        'license_keys', (select count(*) from person p join license_keys k on k.organization_id = ${organization_id} and k.grant_id = p.id and k.member_id is null where p.kind = 'grant' and p.member_id is not null),
        'downloads', (select count(*) from person p join downloadables d on d.organization_id = ${organization_id} and d.grant_id = p.id where p.kind = 'grant' and p.member_id is not null),
        'gone', (select count(*) from mark where pure),
        'staying', (select count(*) from mark where holds and not pure),
        'teams', (select count(*) from mark m join customers c on c.organization_id = ${organization_id} and c.id = m.id and c.type <> 'team' where m.team),
        'problems', (select count(*) from trouble)
      ) as counts`.execute(db.q)
  return rows[0]!
}

/** Finds one seat and one grant whose holder is not the buyer. The switch changes the customer that such records are shown with. */
export const findSamples = async (db: Db, organization_id: string): Promise<{ seat_id: string | null; grant_id: string | null }> => {
  const others = (table: string) =>
    sql`select id from ${sql.table(table)} where organization_id = ${organization_id} and holder_customer_id <> buyer_customer_id order by id limit 1`
  const { rows } = await sql<{
    seat_id: string | null
    grant_id: string | null
  }>`select (${others('seats')}) as seat_id, (${others('benefit_grants')}) as grant_id`.execute(db.q)
  return rows[0]!
}
