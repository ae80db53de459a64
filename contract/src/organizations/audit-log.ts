import { z } from 'zod'
import { filter, integerInText, merchant, named, NotPermitted, operation, pageSize, resource, timestamp, uuid } from '../kit/index.ts'

export const AuditActor = resource('AuditActor', {
  kind: named('AuditActorKind', z.enum(['organization', 'user', 'customer', 'member', 'anonymous', 'cli'])).describe(
    '`organization`: a request with an organization access token. `cli`: a command on the machine of the deployment; `operation` names it.',
  ),
  id: uuid().nullable(),
  credential_id: uuid().nullable().describe('The token, session or grant of the request.'),
  client_id: z.string().nullable().describe('The app that acted for a user; null if there was none.'),
})

export const AuditChange = resource('AuditChange', {
  resource: z.string().describe('The type of the changed resource.'),
  id: uuid().nullable(),
  action: named('AuditAction', z.enum(['created', 'updated', 'deleted'])),
  fields: z
    .record(z.string(), z.object({ before: z.unknown().optional(), after: z.unknown().optional() }))
    .describe('The changed fields. Personal data is replaced by a digest, which shows only whether two values are equal; secrets are left out.'),
})

export const AuditEntry = resource('AuditEntry', {
  id: uuid(),
  sequence: z.int().describe('Numbered without gaps within the organization.'),
  created_at: timestamp(),
  organization_id: uuid(),
  operation: z.string().describe('The id of the operation, the method and path of a page, or a command such as `cli token create`.'),
  request_id: uuid().describe('The `x-request-id` of the answer; for a command, a separate id.'),
  resource_id: uuid().nullable(),
  actor: AuditActor,
  changes: z.array(AuditChange),
  complete: z.boolean().describe('False if the request made more changes than an entry can contain.'),
  hash: z.string().describe('A hash of this entry and of the previous hash. It proves that no earlier entry was changed.'),
})
export type AuditEntry = z.output<typeof AuditEntry>

const moment = () =>
  z.iso
    .datetime({ offset: true })
    .transform((value) => new Date(value))
    .optional()

export const listAuditLog = operation({
  id: 'audit-log:list',
  method: 'GET',
  path: '/v1/audit-log/',
  summary: 'Read the audit log',
  description: 'All changes with their actors, newest first. For the next page, send the smallest `sequence` so far as `before`.',
  access: merchant(['organizations:read', 'organizations:write']),
  costs: 'none',
  query: z.object({
    organization_id: filter(uuid()),
    operation: filter(z.string().max(100)),
    actor_id: filter(uuid()),
    resource_id: filter(uuid()),
    request_id: filter(uuid()),
    start_timestamp: moment().describe('At or after this moment.'),
    end_timestamp: moment().describe('Before this moment.'),
    before: integerInText(z.int().min(1)).optional().describe('Only entries with a smaller number.'),
    limit: pageSize(100),
  }),
  returns: resource('AuditLog', {
    items: z.array(AuditEntry),
    head_sequence: z.int().describe('The highest number so far.'),
    head_hash: z.string().nullable().describe('The hash of the latest entry.'),
  }),
  fails: [NotPermitted],
})
