import type { Payload } from '../../../platform/jobs/catalogue.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Deps } from '../../handlers.ts'
import { accountUrl, languageOfSeller, permissions, sendMail } from '../../organizations/index.ts'
import type { CustomerRow } from '../../customers/index.ts'
import { readDispute } from '../records/disputes.sql.ts'
import { findOrder } from '../records/orders.sql.ts'
import { findPeople, findPerson } from './emails.sql.ts'
import { priceOf, sceneOf } from './scene.ts'

/*
 * A mail to the people of a seller takes two jobs. The first finds the people, and enqueues the second for each of them. So a retry of
 * one mail does not repeat the mails to the others.
 */

/** Enqueues the mail about a new order for each person who may see sales, unless the seller has disabled it. */
export const tellSellerOfOrder = async ({ db, transact }: Deps, { organization_id, order_id }: Payload<'mail.seller_order'>): Promise<void> => {
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  if (!loaded) return
  const { new_order, new_subscription } = scene.seller.notification_settings
  if (!(loaded.subscription === null ? new_order : new_subscription)) return
  const people = await findPeople(db, organization_id, permissions['sales:read'])
  await transact(async (tx) => {
    for (const user_id of people) await enqueue(tx, 'mail.new_order', { organization_id, order_id, user_id })
  })
}

const shown = ({ name, email }: Pick<CustomerRow, 'name' | 'email'>): string => name ?? email ?? '–'

/** Mails one person that something was sold. */
export const mailNewOrder = async (deps: Deps, { organization_id, order_id, user_id }: Payload<'mail.new_order'>): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, organization_id)
  const loaded = scene && (await findOrder(db, scene.scope, order_id))
  const to = loaded && (await findPerson(db, organization_id, user_id))
  if (!to) return
  const { order, subscription, customer } = loaded
  const common = { organization: scene.seller.name, customer: shown(customer), home_url: accountUrl(platform, '/') }
  await sendMail(deps, {
    to,
    seller: null,
    language: languageOfSeller(scene.seller),
    view: subscription
      ? {
          kind: 'new_subscription',
          ...common,
          plan: { name: order.description, seats: subscription.seats },
          price: priceOf(subscription),
          trial_end: subscription.status === 'trialing' ? subscription.trial_end : null,
        }
      : {
          kind: 'new_order',
          ...common,
          description: order.description,
          total: { amount: order.total_amount, currency: order.currency },
          invoice_number: order.invoice_number,
          date: order.created_at,
        },
  })
}

/** Enqueues the mail about an opened dispute for each person who may manage sales. */
export const tellSellerOfDispute = async ({ db, transact }: Deps, { organization_id, dispute_id }: Payload<'mail.seller_dispute'>): Promise<void> => {
  const people = await findPeople(db, organization_id, permissions['sales:manage'])
  await transact(async (tx) => {
    for (const user_id of people) await enqueue(tx, 'mail.dispute_opened', { organization_id, dispute_id, user_id })
  })
}

/** Mails one person that a customer disputes a payment. Does nothing if the dispute was decided meanwhile. */
export const mailDisputeOpened = async (deps: Deps, { organization_id, dispute_id, user_id }: Payload<'mail.dispute_opened'>): Promise<void> => {
  const { db, platform } = deps
  const scene = await sceneOf(db, organization_id)
  const dispute = scene && (await readDispute(db, organization_id, dispute_id))
  const loaded = scene && dispute?.status === 'needs_response' ? await findOrder(db, scene.scope, dispute.order_id) : undefined
  const to = loaded && (await findPerson(db, organization_id, user_id))
  if (!to || !scene || !dispute) return
  await sendMail(deps, {
    to,
    seller: null,
    language: languageOfSeller(scene.seller),
    view: {
      kind: 'dispute_opened',
      organization: scene.seller.name,
      customer: shown(loaded.customer),
      disputed: { amount: dispute.amount + dispute.tax_amount, currency: dispute.currency },
      reason: dispute.reason,
      respond_by: dispute.evidence_due_by,
      invoice_number: loaded.order.invoice_number,
      home_url: accountUrl(platform, '/'),
    },
  })
}
