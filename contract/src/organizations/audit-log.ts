import { z } from 'zod'
import { filter, integerInText, merchant, named, NotPermitted, operation, resource, timestamp, uuid } from '../kit/index.ts'

export const AuditActor = resource('AuditActor', {
  kind: named('AuditActorKind', z.enum(['organization', 'user', 'customer', 'member', 'anonymous'])).describe(
    '`organization`: a machine with one of its access tokens.',
  ),
  id: uuid().nullable(),
  credential_id: uuid().nullable().describe('The token, session or grant that the request came with.'),
  client_id: z.string().nullable().describe('The app that acted for a user, where one did.'),
})

export const AuditChange = resource('AuditChange', {
  resource: z.string().describe('What kind of thing was changed.'),
  id: uuid().nullable(),
  action: named('AuditAction', z.enum(['created', 'updated', 'deleted'])),
  fields: z
    .record(z.string(), z.object({ before: z.unknown().optional(), after: z.unknown().optional() }))
    .describe('What is different now. Of personal data there is a digest that tells only whether two values are the same; secrets are left out.'),
})

export const AuditEntry = resource('AuditEntry', {
  id: uuid(),
  sequence: z.int().describe('Without gaps within the organization.'),
  created_at: timestamp(),
  organization_id: uuid(),
  operation: z.string().describe('The id of the operation, or method and path of a page.'),
  request_id: uuid().describe('The `x-request-id` of the answer.'),
  resource_id: uuid().nullable(),
  actor: AuditActor,
  changes: z.array(AuditChange),
  complete: z.boolean().describe('False where one request changed more than an entry holds.'),
  hash: z.string().describe('Of this entry and of the hash before it: whoever knows the last one can prove that nothing was changed since.'),
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
  description: 'Who changed what, newest first. To go on, send the smallest `sequence` you have seen as `before`.',
  access: merchant(['organizations:read', 'organizations:write']),
  query: z.object({
    organization_id: filter(uuid()),
    operation: filter(z.string().max(100)),
    actor_id: filter(uuid()),
    resource_id: filter(uuid()),
    request_id: filter(uuid()),
    start_timestamp: moment().describe('At or after this moment.'),
    end_timestamp: moment().describe('Before this moment.'),
    before: integerInText(z.int().min(1)).optional().describe('Only entries with a smaller number.'),
    limit: integerInText(z.int().min(1)).default(100).describe('100 at most.'),
  }),
  returns: resource('AuditLog', {
    items: z.array(AuditEntry),
    head_sequence: z.int().describe('The last number that was given so far.'),
    head_hash: z.string().nullable().describe('The hash of that entry.'),
  }),
  fails: [NotPermitted],
})
