import { z } from 'zod'

const id = z.uuid()

/**
 * Every job there is. A job is short, idempotent, and carries ids only: what it needs it reads when it runs.
 * Its name is how an area influences an area to its right.
 */
export const catalogue = {
  'mail.sign_in_code': z.object({ sign_in_code_id: id }),
  'mail.organization_invitation': z.object({ organization_id: id, invitation_id: id }),
  'mail.organization_token_leaked': z.object({ organization_id: id, token_id: id, user_id: id }),
  'mail.personal_token_leaked': z.object({ token_id: id }),
  'mail.app_token_leaked': z.object({ user_id: id, client_id: id }),
  'mail.client_secret_leaked': z.object({ client_id: id }),
  'mail.app_allowed': z.object({ user_id: id, client_id: id }),
  'mail.webhook_paused': z.object({ organization_id: id, endpoint_id: id, user_id: id }),
  'mail.customer_session_leaked': z.object({ organization_id: id, session_id: id }),
  'mail.customer_session_code': z.object({ organization_id: id, code_id: id }),
  'mail.customer_email_change': z.object({ organization_id: id, change_id: id }),
  'mail.customer_email_changed': z.object({ organization_id: id, change_id: id }),
  'checkout.product_archived': z.object({ organization_id: id, product_id: id }),
  'checkout.payment_settled': z.object({ organization_id: id, checkout_id: id }),
  'billing.order_payment_settled': z.object({ organization_id: id, payment_id: id }),
  'billing.follow_payment': z.object({ organization_id: id, payment_id: id }),
  'billing.charge_adopted': z.object({ organization_id: id, payment_id: id }),
  'billing.method_changed': z.object({ organization_id: id, customer_id: id }),
  'billing.customer_deleted': z.object({ organization_id: id, customer_id: id }),
  'mail.order_receipt': z.object({ organization_id: id, order_id: id }),
  'mail.payment_failed': z.object({ organization_id: id, order_id: id }),
  'mail.renewal_reminder': z.object({ organization_id: id, subscription_id: id }),
  'mail.trial_ending': z.object({ organization_id: id, subscription_id: id }),
  'mail.seat_invitation': z.object({ organization_id: id, seat_id: id }),
  'mail.seat_requested': z.object({ organization_id: id, seat_id: id }),
  'billing.end_seats': z.object({ organization_id: id, subscription_id: id.nullable(), order_id: id.nullable() }),
  'billing.member_deleted': z.object({ organization_id: id, member_id: id }),
  'entitlements.reconcile': z.object({ organization_id: id, subscription_id: id.nullable(), order_id: id.nullable(), seat_id: id.nullable() }),
  'entitlements.benefit_changed': z.object({ organization_id: id, benefit_id: id }),
  'entitlements.product_changed': z.object({ organization_id: id, product_id: id }),
  'entitlements.cycled': z.object({ organization_id: id, subscription_id: id, period_start: z.iso.datetime() }),
  'entitlements.customer_deleted': z.object({ organization_id: id, customer_id: id }),
  'entitlements.owner_changed': z.object({ organization_id: id, customer_id: id }),
  'entitlements.member_deleted': z.object({ organization_id: id, member_id: id }),
  'billing.follow_refund': z.object({ organization_id: id, account_id: id, processor_refund_id: z.string() }),
  'billing.follow_dispute': z.object({ organization_id: id, account_id: id, processor_dispute_id: z.string() }),
  'billing.follow_method': z.object({ organization_id: id, account_id: id, processor_method_id: z.string() }),
  'billing.method_added': z.object({ organization_id: id, payment_id: id }),
  'billing.forget_method': z.object({ organization_id: id, payment_method_id: id }),
  'billing.make_document': z.object({ organization_id: id, document_id: id }),
  'customers.forget': z.object({ organization_id: id, customer_id: id }),
} as const

export type JobName = keyof typeof catalogue
export type Payload<N extends JobName> = z.infer<(typeof catalogue)[N]>

/**
 * Every kind of due work: rows of one table whose `due_at` has come, taken by lease. `lease_ms` is how long one row
 * may take before somebody else may try; `at_once` is how many one worker takes and does side by side.
 */
export const sweeps = {
  'identity.expire_invitations': { table: 'organization_invitations', at_once: 8, lease_ms: 10_000 },
  'clocks.travel': { table: 'test_clocks', at_once: 8, lease_ms: 60_000 },
  'billing.renew': { table: 'subscriptions', at_once: 16, lease_ms: 60_000 },
  'billing.collect': { table: 'orders', at_once: 16, lease_ms: 60_000 },
  'billing.follow_payments': { table: 'payments', at_once: 8, lease_ms: 60_000 },
  'billing.follow_refunds': { table: 'refunds', at_once: 8, lease_ms: 60_000 },
  'billing.follow_disputes': { table: 'disputes', at_once: 4, lease_ms: 60_000 },
  'billing.read_up': { table: 'payment_accounts', at_once: 2, lease_ms: 120_000 },
  'billing.expire_seats': { table: 'seats', at_once: 8, lease_ms: 30_000 },
  'entitlements.apply': { table: 'benefit_grants', at_once: 16, lease_ms: 60_000 },
  'entitlements.end_graces': { table: 'benefit_graces', at_once: 8, lease_ms: 60_000 },
  'entitlements.tell_state': { table: 'customer_states', at_once: 4, lease_ms: 30_000 },
  'catalog.tend_files': { table: 'files', at_once: 4, lease_ms: 120_000 },
  'checkout.watch': { table: 'checkouts', at_once: 8, lease_ms: 30_000 },
  'migration.work': { table: 'member_migrations', at_once: 1, lease_ms: 60_000 },
  'webhooks.replay': { table: 'webhook_replays', at_once: 4, lease_ms: 30_000 },
} as const satisfies Record<string, { table: string; at_once: number; lease_ms: number }>

/** Those whose rows may live by a clock of the sandbox: they are due when it says so, and its traveller does them. */
export const clocked = [
  'billing.renew',
  'billing.collect',
  'billing.expire_seats',
  'entitlements.end_graces',
  'checkout.watch',
] as const satisfies readonly (keyof typeof sweeps)[]

/**
 * Work that never ends and must not wait for a sweep: each takes leases on the rows of its table by itself, for as long
 * as its worker lives, and hears of every event that is written.
 */
export const engines = {
  'webhooks.deliver': { table: 'webhook_deliveries' },
} as const satisfies Record<string, { table: string }>

/** What every worker does now and then. A chore may run in several workers at once, and finds nothing to do the second time. */
export const chores = {
  'counters.fold': { every_ms: 60_000 },
  'http.purge': { every_ms: 600_000 },
  'identity.purge': { every_ms: 600_000 },
  'identity.purge_oauth': { every_ms: 600_000 },
  'identity.keys': { every_ms: 600_000 },
  'customers.purge': { every_ms: 600_000 },
  'billing.hear': { every_ms: 1000 },
  'billing.purge': { every_ms: 600_000 },
  'billing.forget_links': { every_ms: 600_000 },
  'webhooks.keep': { every_ms: 600_000 },
} as const satisfies Record<string, { every_ms: number }>

export type ChoreName = keyof typeof chores
export type SweepName = keyof typeof sweeps
export type EngineName = keyof typeof engines
export type DueTable = (typeof sweeps)[SweepName]['table'] | (typeof engines)[EngineName]['table']
