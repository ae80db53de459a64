import { days, later } from '../../../platform/clock.ts'
import type { Deps } from '../../handlers.ts'
import { promiseMails } from '../invoicing/promises.sql.ts'
import { findCard, findExpiringCards } from './emails.sql.ts'
import { mailCustomer, portalOf, sceneOf } from './scene.ts'

/** How long before its end a card is announced to expire. A card is valid until the end of its month. */
const ahead = 20 * days
const atOnce = 200

/**
 * Periodic task that announces the cards which expire within 20 days and pay for a subscription that renews. Each card is announced
 * once: the mail is recorded with the end of the card.
 */
export const announceExpiringCards = async ({ transact, platform }: Deps): Promise<void> => {
  const now = platform.clock.wall()
  const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1))
  if (later(now, ahead) < end) return
  for (;;) {
    const found = await transact(async (tx) => {
      const cards = await findExpiringCards(tx, { year: now.getUTCFullYear(), month: now.getUTCMonth() + 1, end }, atOnce)
      await promiseMails(
        tx,
        'mail.card_expiring',
        cards.map((card) => ({ ...card, moment: end })),
      )
      return cards.length
    })
    if (found < atOnce) return
  }
}

/** Mails that a card expires. Does nothing if the customer has removed it, or no subscription uses it any more. */
export const mailCardExpiring = async (
  deps: Deps,
  { organization_id, payment_method_id }: { organization_id: string; payment_method_id: string },
): Promise<void> => {
  const scene = await sceneOf(deps.db, organization_id)
  const card = scene && (await findCard(deps.db, organization_id, payment_method_id))
  if (!card) return
  const { customer_id, brand, last4, month, year } = card
  const card_url = portalOf(deps.platform, scene.seller).card
  await mailCustomer(deps, scene, customer_id, 'payment_method_expiration_reminder', { kind: 'card_expiring', card: { brand, last4 }, month, year, card_url })
}
