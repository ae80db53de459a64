import { z } from 'zod'
import { csv, failure, merchant, named, NotPermitted, operation, pageSize, resource, timestamp, uuid } from '../kit/index.ts'

export const MemberMigrationState = named('MemberMigrationState', z.enum(['before', 'preparing', 'phase1', 'phase2', 'sealed']))
export type MemberMigrationState = z.output<typeof MemberMigrationState>

/** The background jobs of the member migration. Each job works in batches. */
export const MemberMigrationWork = named('MemberMigrationWork', z.enum(['prepare', 'unprepare', 'tell', 'untell', 'purge']))
export type MemberMigrationWork = z.output<typeof MemberMigrationWork>

export const MemberMigrationProblem = resource('MemberMigrationProblem', {
  resource: named('MemberMigrationResource', z.enum(['seat', 'grant', 'customer', 'member'])),
  id: uuid(),
  problem: z.string().describe('The problem and how to fix it.'),
  blocks: z.boolean().describe('True if the problem must be fixed before the switch.'),
})
export type MemberMigrationProblem = z.output<typeof MemberMigrationProblem>

export const MemberMigration = resource('MemberMigration', {
  organization_id: uuid(),
  state: MemberMigrationState,
  work: resource('MemberMigrationProgress', {
    kind: MemberMigrationWork.describe(
      '`prepare` creates members, `unprepare` removes them. `tell` sends events for the customers that disappear, `untell` for those that return. `purge` deletes the data of the old model.',
    ),
    done: z.int(),
    total: z.int().describe('Counted at the start.'),
  })
    .nullable()
    .describe('The background work in progress; null if there is none.'),
  unprepared: z.int().describe('Seats and grants without a member.'),
  problems: z.array(MemberMigrationProblem).describe('The first hundred problems.'),
  started_at: timestamp().nullable(),
  prepared_at: timestamp().nullable(),
  switched_at: timestamp().nullable(),
  undone_at: timestamp().nullable(),
  seal_at: timestamp().nullable().describe('When the migration is sealed automatically. It can be undone until then.'),
  sealed_at: timestamp().nullable(),
})
export type MemberMigration = z.output<typeof MemberMigration>

const part = <T extends z.ZodType>(item: T) => z.array(item).describe('The first thousand, in the order of their ids.')

/** A dry run of the migration, computed from one snapshot. It changes nothing. */
export const MemberMigrationPlan = resource('MemberMigrationPlan', {
  organization_id: uuid(),
  counts: resource('MemberMigrationCounts', {
    owners: z.int().describe('Customers that get an owner.'),
    members: z.int().describe('Members that are created for seat holders.'),
    seats: z.int().describe('Seats that get a member.'),
    grants: z.int(),
    license_keys: z.int().describe('Keys that move to a member together with their grant.'),
    downloads: z.int().describe('Downloads that move to a member together with their grant.'),
    gone: z.int().describe('Customers whose id answers 404 after the switch.'),
    staying: z.int().describe('Seat holders who stay customers.'),
    teams: z.int().describe('Buyers who become teams.'),
    problems: z.int(),
  }),
  members: part(
    resource('PlannedMember', {
      id: uuid().describe('The id that the member will have.'),
      customer_id: uuid().describe('The customer that the member belongs to.'),
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
      twin: z.boolean().describe('True if the member already has the same benefit through the same purchase. Both grants are kept.'),
    }),
  ),
  gone: part(uuid()),
  staying: part(
    resource('StayingHolder', {
      id: uuid(),
      because: z.array(z.string()).describe('The reasons: subscriptions, orders, benefits, cards, usage, seats for others, or people of its own.'),
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
    .describe('One record of each kind, as it is answered today and after the switch.'),
})
export type MemberMigrationPlan = z.output<typeof MemberMigrationPlan>

export const MigrationNotPossible = failure('MigrationNotPossible', 409, 'The migration is in a state that does not allow this step. Check its state first.')
export const MigrationIncomplete = failure('MigrationIncomplete', 409, 'Some seats or grants have no member yet. See `problems`.')
export const MigrationSealed = failure('MigrationSealed', 409, 'The migration is sealed and cannot be undone.')

const write = merchant('organizations:write')
const read = merchant(['organizations:read', 'organizations:write'])
const whose = { organization_id: uuid().optional().describe('Required if the caller belongs to several organizations.') }

export const getMemberMigration = operation({
  id: 'member-migration:get',
  method: 'GET',
  path: '/v1/member-migration/',
  summary: 'Get the state of the member migration',
  access: read,
  costs: 'none',
  query: z.object(whose),
  returns: MemberMigration,
  fails: [NotPermitted],
})

export const dryRunMemberMigration = operation({
  id: 'member-migration:rehearse',
  method: 'GET',
  path: '/v1/member-migration/rehearsal',
  summary: 'Dry-run the member migration',
  description: 'Computes the plan from one snapshot and changes nothing. The migration later executes the same plan.',
  access: write,
  costs: 'none',
  query: z.object(whose),
  returns: MemberMigrationPlan,
  fails: [NotPermitted, MigrationNotPossible],
})

export const exportMemberMigration = operation({
  id: 'member-migration:export',
  method: 'GET',
  path: '/v1/member-migration/rehearsal/export',
  summary: 'Export the dry run',
  description: 'The complete plan as a file: one line for each member, seat, grant and customer.',
  access: write,
  costs: 'none',
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
  description: 'Creates the members in the background. Existing answers do not change. Send it again after fixing problems, and the work continues.',
  access: write,
  costs: 'jobs',
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const switchMemberMigration = operation({
  id: 'member-migration:switch',
  method: 'POST',
  path: '/v1/member-migration/switch',
  summary: 'Switch to members (phase 2)',
  description: 'Seats, grants, keys, downloads, customers, counts, filters and events change at the same moment. Can be undone until the migration is sealed.',
  access: write,
  costs: 'jobs',
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationIncomplete, MigrationSealed],
})

export const undoMemberMigration = operation({
  id: 'member-migration:undo',
  method: 'POST',
  path: '/v1/member-migration/undo',
  summary: 'Undo the last step',
  description: 'From phase 2 to phase 1 at one moment. From phase 1, or while preparing, to the state before in the background.',
  access: write,
  costs: 'jobs',
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const sealMemberMigration = operation({
  id: 'member-migration:seal',
  method: 'POST',
  path: '/v1/member-migration/seal',
  summary: 'Seal the member migration',
  description: 'Cannot be undone. Deletes customers that only held seats. Happens automatically at `seal_at`.',
  access: write,
  costs: 'jobs',
  body,
  returns: MemberMigration,
  fails: [NotPermitted, MigrationNotPossible, MigrationSealed],
})

export const MovedCustomer = resource('MovedCustomer', {
  holder_customer_id: uuid().describe('The seat holder as a customer.'),
  member_id: uuid().describe('The seat holder as a member.'),
  customer_id: uuid().describe('The customer that the member belongs to.'),
  email: z.string(),
})
export type MovedCustomer = z.output<typeof MovedCustomer>

export const getMemberIdMap = operation({
  id: 'member-migration:id-map',
  method: 'GET',
  path: '/v1/member-migration/id-map',
  summary: 'Map old ids to new ones',
  description: 'For every seat holder, the member that it has become or will become. For the next page, send `next_cursor` as `cursor`.',
  access: read,
  costs: 'none',
  query: z.object({ ...whose, cursor: z.string().max(200).optional(), limit: pageSize(100, 1000) }),
  returns: resource('MemberIdMap', { items: z.array(MovedCustomer), next_cursor: z.string().nullable() }),
  fails: [NotPermitted],
})

export const exportMemberIdMap = operation({
  id: 'member-migration:id-map:export',
  method: 'GET',
  path: '/v1/member-migration/id-map/export',
  summary: 'Export the map of ids',
  access: read,
  costs: 'none',
  query: z.object(whose),
  returns: csv,
  media: 'text/csv',
  fails: [NotPermitted],
})

export const MemberReadiness = resource('MemberReadiness', {
  kind: named('IntegrationKind', z.enum(['organization_token', 'personal_token', 'session', 'oauth_client', 'webhook_endpoint'])),
  id: z.string().describe('The id of the token, the client, the endpoint, or of the person with the session.'),
  name: z.string().nullable(),
  ready: z.boolean().describe('True if nothing was found within the last seven days.'),
  because: z.array(
    resource('ReadinessFinding', {
      finding: named(
        'ReadinessFindingKind',
        z.enum(['fetched_holder', 'filtered_by_holder', 'assigned_by_customer', 'session_without_member', 'listens_without_members']),
      ),
      says: z.string().describe('The finding, and what to do instead.'),
      count: z.int(),
      last_seen_at: timestamp(),
      sample: z.string().nullable().describe('The latest operation with this finding; for an endpoint, the event type that it receives.'),
    }),
  ),
  last_seen_at: timestamp().nullable(),
})
export type MemberReadiness = z.output<typeof MemberReadiness>

export const getMemberReadiness = operation({
  id: 'member-migration:readiness',
  method: 'GET',
  path: '/v1/member-migration/readiness',
  summary: 'List integrations and their readiness for the switch',
  description: 'From real requests since phase 1 began: integrations that will fail or behave differently after the switch.',
  access: read,
  costs: 'none',
  query: z.object(whose),
  returns: resource('MemberReadinessList', { ready: z.boolean(), items: z.array(MemberReadiness) }),
  fails: [NotPermitted],
})
