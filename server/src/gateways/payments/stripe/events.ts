import type { IncomingHttpHeaders } from 'node:http'
import type { Stripe } from 'stripe'
import type { Secret } from '../../../kernel/secrets.ts'
import { minutes, seconds } from '../../../platform/clock.ts'
import { EventRefused, type ProcessorEvent, type ProcessorEventKind } from '../payments.ts'
import { stripeSdk } from './sdk.ts'

const tolerance = 5 * minutes

/** The event types we process. All others are acknowledged and ignored. */
const kinds: Readonly<Record<string, ProcessorEventKind>> = {
  'payment_intent.succeeded': 'intent.succeeded',
  'payment_intent.payment_failed': 'intent.failed',
  'payment_intent.canceled': 'intent.failed',
  'payment_intent.requires_action': 'intent.requires_action',
  'setup_intent.succeeded': 'intent.succeeded',
  'setup_intent.setup_failed': 'intent.failed',
  'setup_intent.canceled': 'intent.failed',
  'setup_intent.requires_action': 'intent.requires_action',
  'refund.created': 'refund.updated',
  'refund.updated': 'refund.updated',
  'refund.failed': 'refund.updated',
  'charge.dispute.created': 'dispute.updated',
  'charge.dispute.updated': 'dispute.updated',
  'charge.dispute.closed': 'dispute.updated',
  'payment_method.automatically_updated': 'method.updated',
  'payment_method.detached': 'method.updated',
}

/** The Stripe event types to list when missed events are fetched. */
export const heardOf = Object.keys(kinds)

/**
 * Reads an event that was signed with this secret within five minutes of now, and refuses all others. Returns null for
 * irrelevant types.
 */
export const readSigned = (secret: Secret, headers: IncomingHttpHeaders, body: Buffer, now: Date): ProcessorEvent | null => {
  return mapStripeEvent(verified(secret, headers['stripe-signature'], body, now))
}

/** Maps a Stripe event that was posted to us or listed by us. Returns null for irrelevant types. */
export const mapStripeEvent = (event: Stripe.Event): ProcessorEvent | null => {
  const kind = kinds[event.type]
  const { id } = event.data.object as { id?: string }
  return kind === undefined || id === undefined ? null : { id: event.id, kind, object_id: id, at: new Date(event.created * 1000) }
}

const verified = (secret: Secret, header: string | string[] | undefined, body: Buffer, now: Date): Stripe.Event => {
  if (typeof header !== 'string') throw new EventRefused('the event is not signed')
  try {
    // The SDK refuses old signatures, but accepts timestamps in the future. These are refused here.
    const event = stripeSdk().webhooks.constructEvent(body, header, secret.reveal(), tolerance / seconds, undefined, now.getTime())
    const signed_at = Number(/(?:^|,)t=(\d{1,12})(?:,|$)/.exec(header)?.[1])
    if (!(signed_at * 1000 - now.getTime() <= tolerance)) throw new EventRefused('the event was signed in the future')
    return event
  } catch (error) {
    throw error instanceof EventRefused ? error : new EventRefused('the signature does not match, or is too old', { cause: error })
  }
}
