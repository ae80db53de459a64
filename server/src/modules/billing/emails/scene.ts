import type { MailCard, MailPeriod, MailPrice, MailView } from '@bursar/views'
import type { Organization } from '@bursar/contract'
import { within, type TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Deps } from '../../handlers.ts'
import { findCustomers, findOwnerOf, languageOfCustomer } from '../../customers/index.ts'
import { findSeller, portalUrl, sendMail, type OrganizationRow } from '../../organizations/index.ts'
import type { OrderRow } from '../records/orders.sql.ts'
import type { SubscriptionRow } from '../records/subscriptions.sql.ts'
import type { PaymentRow } from '../payments/payments.sql.ts'

export type Setting = keyof Organization['customer_email_settings']

/** The seller of a mail, and the scope in which the mail's data is read. */
export interface Scene {
  readonly seller: OrganizationRow
  readonly scope: TenantScope
}

export const sceneOf = async (db: Db, organization_id: string): Promise<Scene | undefined> => {
  const seller = await findSeller(db, { id: organization_id })
  return seller && { seller, scope: within(organization_id, 'machine', seller.member_phase) }
}

/** Whether the seller sends this kind of mail. Mails without a setting are always sent. */
export const isWanted = ({ customer_email_settings }: Pick<OrganizationRow, 'customer_email_settings'>, setting: Setting | null): boolean =>
  setting === null || (customer_email_settings[setting] ?? true)

/**
 * Mails a customer in the seller's name and the customer's language. Does nothing if the seller has disabled this kind of mail, or if
 * there is no address. A team without an address is mailed through its owner. A deleted customer is not mailed. The timeline of the order
 * lists a mail with `order_id`.
 */
export const mailCustomer = async (
  deps: Deps,
  { seller, scope }: Scene,
  customer_id: string,
  setting: Setting | null,
  view: MailView,
  order_id?: string,
): Promise<void> => {
  if (!isWanted(seller, setting)) return
  const [customer] = await findCustomers(deps.db, scope, { id: customer_id })
  const to = customer && (customer.email ?? (await findOwnerOf(deps.db, customer))?.email)
  if (to)
    await sendMail(deps, {
      to,
      seller,
      customer_ids: [customer.id],
      language: languageOfCustomer(customer),
      view,
      ...(order_id === undefined ? {} : { order_id }),
    })
}

/** The pages of the portal that mails link. */
export const portalOf = (platform: Deps['platform'], seller: OrganizationRow) => {
  const at = (path: string) => portalUrl(platform, seller, path)
  return {
    order: (id: string) => at(`/orders/${id}`),
    pdf: (id: string, kind: 'invoice' | 'receipt') => at(`/orders/${id}/${kind}`),
    access: at('/access'),
    card: at('/billing?flow=payment_method'),
    subscriptions: at('/subscriptions'),
    cancel: at('/subscriptions?flow=cancel'),
    overview: at('/overview'),
    team: at('?flow=team'),
  }
}

export const cardOf = (payment: Pick<PaymentRow, 'method_metadata'> | undefined): MailCard | null => payment?.method_metadata ?? null

/** Returns the period that an order bills. Null for an order without one, or with an empty one. */
export const periodOf = ({ period_start: start, period_end: end }: OrderRow): MailPeriod | null =>
  start === null || end === null || start.getTime() === end.getTime() ? null : { start, end }

export const priceOf = ({ amount, currency, recurring_interval, recurring_interval_count }: SubscriptionRow): MailPrice => ({
  amount,
  currency,
  interval: recurring_interval,
  interval_count: recurring_interval_count,
})
