import { InvalidRequest, streamLive, type WebhookEventType } from '@bursar/contract'
import { seconds } from '../../../platform/clock.ts'
import { live } from '../../handlers.ts'
import { chooseOne, permits, type Permission } from '../../organizations/index.ts'

/** The permission that reads the resources of an event type, by the part of the type before the dot. Null: every member may. */
const readers: Readonly<Record<ResourceOf<WebhookEventType>, Permission | null>> = {
  benefit: 'products:read',
  benefit_grant: 'customers:read',
  checkout: 'sales:read',
  customer: 'customers:read',
  customer_seat: 'customers:read',
  discount: 'products:read',
  member: 'customers:read',
  order: 'sales:read',
  organization: null,
  product: 'products:read',
  refund: 'sales:read',
  subscription: 'sales:read',
  usage: 'customers:read',
}
type ResourceOf<Kind extends string> = Kind extends `${infer Resource}.${string}` ? Resource : never

/** The permission that the reader of an event type needs. Undefined for an unknown type, which no reader gets. */
export const permissionFor = (kind: string): Permission | null | undefined => (readers as Readonly<Record<string, Permission | null>>)[kind.split('.')[0]!]

export const operations = [
  live(streamLive, async (streams, { actor, scope, query, raw }) => {
    const organization_id = chooseOne(scope, [query.organization_id])
    const reader = {
      session_id: actor.credential_id,
      organization_id,
      role: scope.organizations.get(organization_id)!,
      mayRead: (kind: string) => {
        const permission = permissionFor(kind)
        return permission === null || (permission !== undefined && permits(scope, organization_id, permission))
      },
    }
    return streams.join(reader, { after: lastEventId(raw.headers['last-event-id']) ?? query.last_event_id, wait: query.wait * seconds })
  }),
]

/** Reads the number of the last event that a browser has received. The header replaces the query, because a browser repeats the query unchanged. */
const lastEventId = (value: string | string[] | undefined): number | undefined => {
  if (value === undefined || value === '') return undefined
  if (typeof value === 'string' && /^\d{1,15}$/.test(value)) return Number(value)
  throw new InvalidRequest({ loc: ['header', 'last-event-id'], msg: 'Expected the number of an event.', type: 'int_parsing', input: value })
}
