import { ExpiredCheckoutError, NotOpenCheckout, type CheckoutDraft } from '@bursar/contract'
import { Secret } from '../../../kernel/secrets.ts'
import { days } from '../../../platform/clock.ts'
import { hashOfAddress } from '../../../platform/personal.sql.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { existing, isExpired, presented, unlessLocked } from './checkouts.ts'
import { deleteDraft, findDraft, findDraftBySecret, holdCheckoutBySecret, saveDraft, type DraftedCheckout, type Key } from './drafts.sql.ts'

/** How long the client secret and the draft of an expired checkout stay, so that the buyer can renew it. */
export const keptAfterExpiry = 7 * days

const boundTo = (id: string) => `checkout draft ${id}`

const refuseClosed = (platform: Platform, checkout: DraftedCheckout): void => {
  if (isExpired(checkout, checkout.test_time ?? platform.clock.business())) throw new ExpiredCheckoutError()
  if (checkout.status !== 'open') throw new NotOpenCheckout()
}

/** Returns the draft of an open checkout. */
export const readDraft = async (db: Db, platform: Platform, client_secret: string): Promise<CheckoutDraft> => {
  const found = existing(await findDraftBySecret(db, presented(platform, client_secret)))
  refuseClosed(platform, found)
  const { fields_sealed, modified_at } = found
  if (!fields_sealed) return { fields: {}, modified_at: null }
  return { fields: JSON.parse(platform.sealer.open(fields_sealed, boundTo(found.id)).reveal()) as CheckoutDraft['fields'], modified_at: modified_at! }
}

/** Replaces the draft of an open checkout, or deletes it if there are no fields. Emits no event and computes nothing. */
export const storeDraft = async (tx: Tx, platform: Platform, client_secret: string, fields: CheckoutDraft['fields']): Promise<void> => {
  const checkout = existing(await unlessLocked(() => holdCheckoutBySecret(tx, presented(platform, client_secret))))
  refuseClosed(platform, checkout)
  const { organization_id, id } = checkout
  const address = fields.customer_email?.trim()
  if (Object.keys(fields).length === 0) return deleteDraft(tx, checkout)
  const fields_sealed = platform.sealer.seal(new Secret(JSON.stringify(fields)), boundTo(id))
  const email_hash = address ? hashOfAddress(platform.hasher, organization_id, address) : null
  await saveDraft(tx, { organization_id, id, modified_at: tx.clock.wall(), fields_sealed, email_hash })
}

/** Copies the draft of a checkout to the checkout that renews it. */
export const copyDraft = async (tx: Tx, platform: Platform, from: Key, to: Key): Promise<void> => {
  const found = await findDraft(tx, from)
  if (!found?.fields_sealed) return
  const fields = platform.sealer.open(found.fields_sealed, boundTo(from.id))
  await saveDraft(tx, {
    organization_id: to.organization_id,
    id: to.id,
    modified_at: tx.clock.wall(),
    fields_sealed: platform.sealer.seal(fields, boundTo(to.id)),
    email_hash: found.email_hash,
  })
}
