import { z } from 'zod'
import { csv, failure, integerInText, merchant, named, NotPermitted, operation, resource, timestamp, uuid } from '../kit/index.ts'

export const MemberMigrationState = named('MemberMigrationState', z.enum(['before', 'preparing', 'phase1', 'phase2', 'sealed']))
export type MemberMigrationState = z.output<typeof MemberMigrationState>

/** What is done in the background, a part at a time. */
export const MemberMigrationWork = named('MemberMigrationWork', z.enum(['prepare', 'unprepare', 'tell', 'untell', 'purge']))
export type MemberMigrationWork = z.output<typeof MemberMigrationWork>

export const MemberMigrationProblem = resource('MemberMigrationProblem', {
  resource: named('MemberMigrationResource', z.enum(['seat', 'grant', 'customer', 'member'])),
  id: uuid(),
  problem: z.string().describe('What is wrong, and what mends it.'),
  blocks: z.boolean().describe('The switch waits until it is mended.'),
})
export type MemberMigrationProblem = z.output<typeof MemberMigrationProblem>

export const MemberMigration = resource('MemberMigration', {
  organization_id: uuid(),
  state: MemberMigrationState,
  work: resource('MemberMigrationProgress', {
    kind: MemberMigrationWork.describe(
      '`prepare` makes members, `unprepare` takes them back; `tell` says whose customer is gone, `untell` that it is there again; `purge` removes what nobody can come back to.',
    ),
    done: z.int(),
    total: z.int().describe('As counted when it began.'),
  })
    .nullable()
    .describe('What is under way; null: nothing.'),
  unprepared: z.int().describe('Seats and grants without a member.'),
  problems: z.array(MemberMigrationProblem).describe('The first hundred.'),
  started_at: timestamp().nullable(),
  prepared_at: timestamp().nullable(),
  switched_at: timestamp().nullable(),
  undone_at: timestamp().nullable(),
  seal_at: timestamp().nullable().describe('When it is sealed by itself: until then it can be undone.'),
  sealed_at: timestamp().nullable(),
})
export type MemberMigration = z.output<typeof MemberMigration>

const part = <T extends z.ZodType>(item: T) => z.array(item).describe('The first thousand, in the order of their ids.')

/** What would happen, worked out from one moment's data; nothing is changed by it. */
export const MemberMigrationPlan = resource('MemberMigrationPlan', {
  organization_id: uuid(),
  counts: resource('MemberMigrationCounts', {
    owners: z.int().describe('Customers that get an owner.'),
    members: z.int().describe('Members that are made for seat holders.'),
    seats: z.int().describe('Seats that get a member.'),
    grants: z.int(),
    license_keys: z.int().describe('Keys that go to a member with their grant.'),
    downloads: z.int().describe('Files that go with theirs.'),
    gone: z.int().describe('Customers whose id answers 404 after the switch.'),
    staying: z.int().describe('Seat holders who stay customers.'),
    teams: z.int().describe('Buyers who become teams.'),
    problems: z.int(),
  }),
  members: part(
    resource('PlannedMember', {
      id: uuid().describe('It will have this id.'),
      customer_id: uuid().describe('Whose member it is.'),
      email: z.string(),
      name: z.string().nullable(),
      external_id: z.string().nullable(),
      role: z.enum(['owner', 'member']),
    }),
  ),
  seats: part(resource('PlannedSeat', { id: uuid(), member_id: uuid(), customer_id_before: uuid(), customer_id_after: uuid() })),
  grants: part(
    resource('PlannedGrant', {
      id: uuid(),
      member_id: uuid(),
      customer_id_before: uuid(),
      customer_id_after: uuid(),
      twin: z.boolean().describe('The member has the same benefit through the same purchase already: both are kept.'),
    }),
  ),
  gone: part(uuid()),
  staying: part(
    resource('StayingHolder', {
      id: uuid(),
      because: z.array(z.string()).describe('What it has of its own: subscriptions, orders, benefits, cards, usage, seats for others, people.'),
    }),
  ),
  teams: part(uuid()),
  problems: part(MemberMigrationProblem),
  samples: z
    .array(
      resource('MigrationSample', {
        resource: z.string(),
        id: uuid(),
        before: z.record(z.string(), z.unknown()),
        after: z.record(z.string(), z.unknown()),
      }),
    )
    .describe('One of each kind as it is answered today, and as it will be.'),
})
export type MemberMigrationPlan = z.output<typeof MemberMigrationPlan>

export const MigrationNotPossible = failure('MigrationNotPossible', 409, 'The migration is not where this step can be taken.')
export const MigrationIncomplete = failure('MigrationIncomplete', 409, 'Something is not prepared yet: see `problems`.')
export const MigrationSealed = failure('MigrationSealed', 409, 'The migration is sealed: there is no way back.')

const write = merchant('organizations:write')
const read = merchant(['organizations:read', 'organizations:write'])
const whose = { organization_id: uuid().optional().describe('Needed where the caller belongs to several.') }

export const getMemberMigration = operation({
  id: 'member-migration:get',
  method: 'GET',
  path: '/v1/member-migration/',
  summary: 'Get the state of the member migration',
  access: read,
  query: z.object(whose),
  returns: MemberMigration,
  fails: [NotPermitted],
})

export const rehearseMemberMigration = operation({
  id: 'member-migration:rehearse',
  method: 'GET',
  path: '/v1/member-migration/rehearsal',
  summary: 'Rehearse the member migration',
  description: 'Works out what would happen, from the data of one moment, and changes nothing. The same plan is what is carried out later.',
  access: write,
  query: z.object(whose),
  returns: MemberMigrationPlan,
  fails: [NotPermitted, MigrationNotPossible],
})

export const exportMemberMigration = operation({
  id: 'member-migration:export',
  method: 'GET',
  path: '/v1/member-migration/rehearsal/export',
  summary: 'Export the rehearsal',
  description: 'The whole plan as a file: one line for each member, seat, grant and customer.',
  access: write,
  query: z.object(whose),
  returns: csv,
  media: 'text/csv',
  fails: [NotPermitted, MigrationNotPossible],
})

const body = resource('MemberMigrationStep', { organization_id: uuid().nullish() })

export const startMemberMigration = operation({
  id: 'member-migration:start',
  method: 'POST',
  path: '/v1/member-migration/start',
  summary: 'Prepare the members (phase 1)',
  description:
    'Makes the members in the background. Nothing that is answered today changes. Asked again while it runs, or after problems were mended, it goes on.',
  access: write,
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const switchMemberMigration = operation({
  id: 'member-migration:switch',
  method: 'POST',
  path: '/v1/member-migration/switch',
  summary: 'Switch to members (phase 2)',
  description: 'Seats, grants, keys, downloads, customers, counts, filters and events change at one instant. It can be undone until it is sealed.',
  access: write,
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationIncomplete, MigrationSealed],
})

export const undoMemberMigration = operation({
  id: 'member-migration:undo',
  method: 'POST',
  path: '/v1/member-migration/undo',
  summary: 'Take the last step back',
  description: 'From phase 2 to phase 1, at one instant; from phase 1 or while preparing to before, in the background.',
  access: write,
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const sealMemberMigration = operation({
  id: 'member-migration:seal',
  method: 'POST',
  path: '/v1/member-migration/seal',
  summary: 'Seal the member migration',
  description: 'For good: what only held seats is removed. It happens by itself when `seal_at` has come.',
  access: write,
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const MovedCustomer = resource('MovedCustomer', {
  holder_customer_id: uuid().describe('The seat holder as a customer.'),
  member_id: uuid().describe('The seat holder as a member.'),
  customer_id: uuid().describe('Whose member it is.'),
  email: z.string(),
})
export type MovedCustomer = z.output<typeof MovedCustomer>

export const getMemberIdMap = operation({
  id: 'member-migration:id-map',
  method: 'GET',
  path: '/v1/member-migration/id-map',
  summary: 'Map old ids to new ones',
  description: 'For every seat holder the member that it has become or will become. To go on, send `next_cursor` as `cursor`.',
  access: read,
  query: z.object({ ...whose, cursor: z.string().max(200).optional(), limit: integerInText(z.int().min(1)).default(100).describe('1,000 at most.') }),
  returns: resource('MemberIdMap', { items: z.array(MovedCustomer), next_cursor: z.string().nullable() }),
  fails: [NotPermitted],
})

export const exportMemberIdMap = operation({
  id: 'member-migration:id-map:export',
  method: 'GET',
  path: '/v1/member-migration/id-map/export',
  summary: 'Export the map of ids',
  access: read,
  query: z.object(whose),
  returns: csv,
  media: 'text/csv',
  fails: [NotPermitted],
})

export const MemberReadiness = resource('MemberReadiness', {
  kind: named('IntegrationKind', z.enum(['organization_token', 'personal_token', 'session', 'oauth_client', 'webhook_endpoint'])),
  id: z.string().describe('Of the token, the client, the endpoint, or of the person whose session it is.'),
  name: z.string().nullable(),
  ready: z.boolean().describe('Nothing was found within the last seven days.'),
  because: z.array(
    resource('ReadinessFinding', {
      finding: named(
        'ReadinessFindingKind',
        z.enum(['fetched_holder', 'filtered_by_holder', 'assigned_by_customer', 'session_without_member', 'listens_without_members']),
      ),
      says: z.string().describe('What it did, and what to do instead.'),
      count: z.int(),
      last_seen_at: timestamp(),
      sample: z.string().nullable().describe('The operation that it last did it with; of an endpoint, the kind of event that it receives.'),
    }),
  ),
  last_seen_at: timestamp().nullable(),
})
export type MemberReadiness = z.output<typeof MemberReadiness>

export const getMemberReadiness = operation({
  id: 'member-migration:readiness',
  method: 'GET',
  path: '/v1/member-migration/readiness',
  summary: 'See which integrations are ready for the switch',
  description: 'From real requests since phase 1 began: who still does what will not work, or will mean something else.',
  access: read,
  query: z.object(whose),
  returns: resource('MemberReadinessList', { ready: z.boolean(), items: z.array(MemberReadiness) }),
  fails: [NotPermitted],
})
