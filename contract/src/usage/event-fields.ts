import { z } from 'zod'
import { timestamp, uuid } from '../kit/index.ts'
import { EventMetadataInput } from './event-metadata.ts'

/** An id of the sender, or the id or external id of an event. */
export const reference = () => z.string().min(1).max(256)

/** The fields of an event that a seller sends, without its customer. */
export const sentFields = {
  timestamp: timestamp()
    .refine((moment) => moment.getTime() >= 0, 'Expected a time from 1970 on.')
    .optional()
    .describe('When the usage happened. Any time from 1970 on that is not in the future, and now by default.'),
  name: z.string().min(1).max(128).describe('The name of the event. Meters select events by it.'),
  external_id: reference().nullish().describe('Your own id of the event. Another event with the same id is a duplicate, and is not stored.'),
  parent_id: reference().nullish().describe('The id or the external id of the parent event. The parent may be sent later.'),
  metadata: EventMetadataInput.optional().describe('The data of the event, for meters and for you. Numbers are at most 1e30, without their sign.'),
}

export const customerOfEvent = {
  customer_id: uuid(),
  member_id: uuid().nullish().describe('The member of the customer that caused the event.'),
}

export const externalCustomerOfEvent = {
  external_customer_id: reference().describe('Your own id of the customer. The customer may be created later.'),
  external_member_id: reference().nullish().describe('Your own id of the member that caused the event. The member may be created later.'),
}
