import { z } from 'zod'
import { merchant, NotPermitted, oneOf, operation, requestLimits, resource, strictResource, text, timestamp, uuid } from '../kit/index.ts'
import { customerOfEvent, externalCustomerOfEvent, reference, sentFields } from './event-fields.ts'

/** The most events that one request corrects. Maxima, minima and unique values are counted again for each of their quarter hours. */
const mostCorrections = requestLimits.corrections_per_request

const replacementFields = {
  ...sentFields,
  timestamp: sentFields.timestamp.describe('When the usage happened. By default the time of the replaced event.'),
}

const target = {
  event_id: reference().describe('The id or the external id of the event.'),
  reason: text(1, 500).describe('Why the event is corrected, for people. It is erased with the customer of the event.'),
}

export const EventVoid = strictResource('EventVoid', { action: z.literal('void'), ...target })
export const EventReplace = strictResource('EventReplace', {
  action: z.literal('replace'),
  ...target,
  replacement: oneOf(strictResource('EventReplacementCustomer', { ...replacementFields, ...customerOfEvent }), {
    external_customer_id: strictResource('EventReplacementExternalCustomer', { ...replacementFields, ...externalCustomerOfEvent }),
  }).describe('The whole event that counts instead. It gets an id of its own.'),
})
export type EventCorrectionCreate = z.output<typeof EventVoid> | z.output<typeof EventReplace>

export const EventsCorrect = resource('EventsCorrect', {
  organization_id: uuid().nullish().describe('Required, unless the credential is an organization token. An organization token must leave it out.'),
  corrections: z.array(z.discriminatedUnion('action', [EventVoid, EventReplace])).max(mostCorrections),
})

const made = {
  id: uuid(),
  created_at: timestamp(),
  event_id: uuid().describe('The corrected event. It is kept, and no longer counts.'),
  replacement_id: uuid().nullable().describe('The event that counts instead. Null if the event was voided.'),
}

/** A correction in the answer to its request. Answers are stored for retries, so it has no reason, which may be personal. */
export const EventCorrectionMade = resource('EventCorrectionMade', made)
export type EventCorrectionMade = z.output<typeof EventCorrectionMade>

/** A correction of an event. */
export const EventCorrection = resource('EventCorrection', {
  ...made,
  reason: z.string().nullable().describe('Null after the data of the customer was erased.'),
})

export const EventsCorrectResponse = resource('EventsCorrectResponse', {
  corrected: z.int().describe('Events that this request corrected.'),
  duplicates: z.int().describe('Corrections that were made before, or are repeated in this request. They changed nothing.'),
  corrections: z.array(EventCorrectionMade).describe('The correction of each event, in the sequence of the request.'),
})

export const correctEvents = operation({
  id: 'events:correct',
  method: 'POST',
  path: '/v1/events/corrections',
  summary: 'Correct events',
  description: `Voids events, or replaces them by others, in one transaction: all of them, or none if one correction is not valid. A corrected event is kept, and no longer counts on any meter. An event is corrected once. To change a replacement, correct the replacement. The same correction can be sent again, and changes nothing. Send up to ${mostCorrections} corrections at once.`,
  access: merchant('events:write'),
  costs: 'jobs',
  body: EventsCorrect,
  slices: 'corrections',
  returns: EventsCorrectResponse,
  fails: [NotPermitted],
})
