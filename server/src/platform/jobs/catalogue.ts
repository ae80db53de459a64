import { z } from 'zod'

const id = z.uuid()

/**
 * The classes of jobs, most urgent first. A person waits for the result of an urgent job: a sign-in code, or a payment
 * that settles. A bulk job works on many rows or renders a file.
 *
 * `priority` orders waiting jobs; the lowest number runs first. `slots` is the number of concurrent jobs of one worker
 * that the class and all later classes may use together. `per_organization` is the same limit for one organization.
 */
export const jobClasses = {
  urgent: { priority: 0, slots: 8, per_organization: 5 },
  ordinary: { priority: 10, slots: 6, per_organization: 3 },
  bulk: { priority: 20, slots: 3, per_organization: 1 },
} as const satisfies Record<string, { priority: number; slots: number; per_organization: number }>

export type JobClass = keyof typeof jobClasses

/**
 * Gives the job one key per container, such as a product. The key contains the ids that name the container. Further
 * enqueues of the same container change the waiting job instead of adding another one.
 */
const perContainer = true

/** The position of a job that walks through many rows and continues in another job. See `walk`. */
const cursor = { after: id.nullable().default(null), until: id.nullable().default(null) }
export const cursorNames: readonly string[] = Object.keys(cursor)

const job = <P extends z.ZodObject>(jobClass: JobClass, payload: P, keyed = false) => ({ class: jobClass, payload, keyed })

/**
 * All jobs. A job is short and idempotent, and its payload contains only ids. The job reads its data when it runs. A
 * module that must not import another module enqueues one of that module's jobs instead.
 */
export const catalogue = {
  'mail.sign_in_code': job('urgent', z.object({ sign_in_code_id: id, language: z.enum(['en', 'de']).default('en') })),
  'mail.organization_invitation': job('ordinary', z.object({ organization_id: id, invitation_id: id })),
  'mail.organization_token_leaked': job('ordinary', z.object({ organization_id: id, token_id: id, user_id: id })),
  'mail.personal_token_leaked': job('ordinary', z.object({ token_id: id })),
  'mail.app_token_leaked': job('ordinary', z.object({ user_id: id, client_id: id })),
  'mail.client_secret_leaked': job('ordinary', z.object({ client_id: id })),
  'mail.app_allowed': job('ordinary', z.object({ user_id: id, client_id: id })),
  'mail.webhook_paused': job('ordinary', z.object({ organization_id: id, endpoint_id: id, user_id: id })),
  'mail.payment_account_changed': job('ordinary', z.object({ organization_id: id, account_id: id, user_id: id })),
  'mail.customer_session_leaked': job('ordinary', z.object({ organization_id: id, session_id: id })),
  'mail.customer_session_code': job('urgent', z.object({ organization_id: id, code_id: id })),
  'mail.customer_email_change': job('urgent', z.object({ organization_id: id, change_id: id })),
  'mail.customer_email_changed': job('ordinary', z.object({ organization_id: id, change_id: id })),
  'organizations.copy_logo': job('bulk', z.object({ organization_id: id }), perContainer),
  'checkout.product_archived': job('bulk', z.object({ organization_id: id, product_id: id }), perContainer),
  'checkout.payment_settled': job('urgent', z.object({ organization_id: id, checkout_id: id }), perContainer),
  'billing.order_payment_settled': job('urgent', z.object({ organization_id: id, payment_id: id }), perContainer),
  'billing.follow_payment': job('urgent', z.object({ organization_id: id, payment_id: id }), perContainer),
  'billing.charge_adopted': job('urgent', z.object({ organization_id: id, payment_id: id }), perContainer),
  'billing.method_changed': job('ordinary', z.object({ organization_id: id, customer_id: id }), perContainer),
  'billing.follow_usage': job('ordinary', z.object({ organization_id: id, customer_id: id }), perContainer),
  'billing.customer_deleted': job('ordinary', z.object({ organization_id: id, customer_id: id }), perContainer),
  'mail.order_receipt': job('ordinary', z.object({ organization_id: id, order_id: id })),
  'mail.payment_failed': job('ordinary', z.object({ organization_id: id, order_id: id })),
  'mail.order_refunded': job('ordinary', z.object({ organization_id: id, refund_id: id }), perContainer),
  'mail.dispute': job('ordinary', z.object({ organization_id: id, dispute_id: id }), perContainer),
  'mail.seller_order': job('ordinary', z.object({ organization_id: id, order_id: id }), perContainer),
  'mail.new_order': job('ordinary', z.object({ organization_id: id, order_id: id, user_id: id }), perContainer),
  'mail.seller_dispute': job('ordinary', z.object({ organization_id: id, dispute_id: id }), perContainer),
  'mail.dispute_opened': job('ordinary', z.object({ organization_id: id, dispute_id: id, user_id: id }), perContainer),
  'mail.trial_started': job('ordinary', z.object({ organization_id: id, subscription_id: id }), perContainer),
  'mail.subscription': job(
    'ordinary',
    z.object({
      organization_id: id,
      subscription_id: id,
      change: z.enum(['canceled', 'uncanceled', 'ended', 'paused', 'resumed', 'seats', 'plan']),
    }),
    perContainer,
  ),
  'mail.card_expiring': job('ordinary', z.object({ organization_id: id, payment_method_id: id })),
  'mail.renewal_reminder': job('ordinary', z.object({ organization_id: id, subscription_id: id })),
  'mail.trial_ending': job('ordinary', z.object({ organization_id: id, subscription_id: id })),
  'mail.usage_threshold': job('ordinary', z.object({ organization_id: id, threshold_id: id }), perContainer),
  'mail.seat_invitation': job('ordinary', z.object({ organization_id: id, seat_id: id })),
  'mail.seat_revoked': job('ordinary', z.object({ organization_id: id, seat_id: id }), perContainer),
  'mail.seat_requested': job('ordinary', z.object({ organization_id: id, seat_id: id })),
  'billing.end_seats': job('ordinary', z.object({ organization_id: id, subscription_id: id.nullable(), order_id: id.nullable() }), perContainer),
  'billing.member_deleted': job('ordinary', z.object({ organization_id: id, member_id: id }), perContainer),
  'entitlements.reconcile': job(
    'ordinary',
    z.object({ organization_id: id, subscription_id: id.nullable(), order_id: id.nullable(), seat_id: id.nullable() }),
    perContainer,
  ),
  'entitlements.benefit_changed': job('bulk', z.object({ organization_id: id, benefit_id: id, ...cursor }), perContainer),
  'entitlements.product_changed': job('bulk', z.object({ organization_id: id, product_id: id, ...cursor }), perContainer),
  'entitlements.cycled': job('ordinary', z.object({ organization_id: id, subscription_id: id, period_start: z.iso.datetime() }), perContainer),
  'entitlements.customer_deleted': job('ordinary', z.object({ organization_id: id, customer_id: id }), perContainer),
  'entitlements.owner_changed': job('ordinary', z.object({ organization_id: id, customer_id: id }), perContainer),
  'entitlements.member_deleted': job('ordinary', z.object({ organization_id: id, member_id: id }), perContainer),
  'billing.refund_order': job('ordinary', z.object({ organization_id: id, order_id: id }), perContainer),
  'billing.follow_refund': job('ordinary', z.object({ organization_id: id, account_id: id, processor_refund_id: z.string() }), perContainer),
  'billing.follow_dispute': job('ordinary', z.object({ organization_id: id, account_id: id, processor_dispute_id: z.string() }), perContainer),
  'billing.follow_method': job('ordinary', z.object({ organization_id: id, account_id: id, processor_method_id: z.string() }), perContainer),
  'billing.method_added': job('ordinary', z.object({ organization_id: id, payment_id: id }), perContainer),
  'billing.forget_method': job('ordinary', z.object({ organization_id: id, payment_method_id: id }), perContainer),
  'billing.confirm_tax': job('ordinary', z.object({ organization_id: id, order_id: id }), perContainer),
  'billing.reverse_tax': job('ordinary', z.object({ organization_id: id, refund_id: id.nullable(), dispute_id: id.nullable() }), perContainer),
  'billing.make_document': job('bulk', z.object({ organization_id: id, document_id: id }), perContainer),
  'customers.forget': job('bulk', z.object({ organization_id: id, customer_id: id }), perContainer),
} as const

export type JobName = keyof typeof catalogue
export type Payload<N extends JobName> = z.infer<(typeof catalogue)[N]['payload']>
/** The payload as a caller gives it, without the fields that have defaults. */
export type NewPayload<N extends JobName> = z.input<(typeof catalogue)[N]['payload']>

/**
 * All kinds of due work: rows of one table whose `due_at` has passed, taken by lease. `lease_ms` is the time for one row
 * before another worker may take it. `at_once` is the number of rows that one worker processes concurrently.
 */
export const sweeps = {
  'identity.expire_invitations': { table: 'organization_invitations', at_once: 8, lease_ms: 10_000 },
  'clocks.travel': { table: 'test_clocks', at_once: 8, lease_ms: 60_000 },
  'billing.renew': { table: 'subscriptions', at_once: 16, lease_ms: 60_000 },
  'billing.collect': { table: 'orders', at_once: 16, lease_ms: 60_000 },
  'billing.settle_usage': { table: 'usage_periods', at_once: 8, lease_ms: 60_000 },
  'billing.follow_payments': { table: 'payments', at_once: 8, lease_ms: 60_000 },
  'billing.follow_refunds': { table: 'refunds', at_once: 8, lease_ms: 60_000 },
  'billing.follow_disputes': { table: 'disputes', at_once: 4, lease_ms: 60_000 },
  'billing.read_up': { table: 'payment_accounts', at_once: 2, lease_ms: 120_000 },
  'billing.expire_seats': { table: 'seats', at_once: 8, lease_ms: 30_000 },
  'entitlements.apply': { table: 'benefit_grants', at_once: 16, lease_ms: 60_000 },
  'entitlements.end_graces': { table: 'benefit_graces', at_once: 8, lease_ms: 60_000 },
  'entitlements.tell_state': { table: 'customer_states', at_once: 4, lease_ms: 30_000 },
  'entitlements.refresh_meters': { table: 'customer_meters', at_once: 8, lease_ms: 30_000 },
  'usage.backfill_meters': { table: 'usage_meters', at_once: 2, lease_ms: 60_000 },
  'catalog.tend_files': { table: 'files', at_once: 4, lease_ms: 120_000 },
  'checkout.watch': { table: 'checkouts', at_once: 8, lease_ms: 30_000 },
  'migration.work': { table: 'member_migrations', at_once: 1, lease_ms: 60_000 },
  'webhooks.replay': { table: 'webhook_replays', at_once: 4, lease_ms: 30_000 },
} as const satisfies Record<string, { table: string; at_once: number; lease_ms: number }>

/**
 * The sweeps that process rows of one organization together. `size` is the maximum number of rows in one group. `at_once`
 * replaces the number of rows that one worker processes concurrently.
 */
export const groups = {
  'billing.renew': { at_once: 100, size: 50 },
  'entitlements.tell_state': { at_once: 50, size: 25 },
} as const satisfies Partial<Record<keyof typeof sweeps, { at_once: number; size: number }>>

/**
 * The sweeps whose rows may belong to a test clock. Rows of a test clock are due by the time of that clock, and the
 * task that advances the clock processes them.
 */
export const clocked = [
  'billing.renew',
  'billing.collect',
  'billing.settle_usage',
  'billing.expire_seats',
  'entitlements.end_graces',
  'checkout.watch',
] as const satisfies readonly (keyof typeof sweeps)[]

/**
 * Daemons: work that runs for as long as its worker and must not wait for a sweep. Each daemon takes leases on the rows
 * of its table itself, and is notified of every committed event.
 */
export const daemons = {
  'webhooks.deliver': { table: 'webhook_deliveries' },
} as const satisfies Record<string, { table: string }>

/** Periodic tasks of every worker. A task may run in several workers at once, because a second run finds nothing to do. */
export const periodicTasks = {
  'audit.chain': { every_ms: 1000 },
  'counters.fold': { every_ms: 60_000 },
  'http.purge': { every_ms: 600_000 },
  'organizations.copy_logos': { every_ms: 600_000 },
  'organizations.purge_mails': { every_ms: 600_000 },
  'identity.purge': { every_ms: 600_000 },
  'identity.purge_oauth': { every_ms: 600_000 },
  'identity.keys': { every_ms: 600_000 },
  'customers.purge': { every_ms: 600_000 },
  'customers.forget_again': { every_ms: 600_000 },
  'usage.keep': { every_ms: 600_000 },
  'usage.link': { every_ms: 5000 },
  'usage.link_all': { every_ms: 600_000 },
  'usage.purge_reservations': { every_ms: 60_000 },
  'usage.copy': { every_ms: 1000 },
  'usage.merge': { every_ms: 2000 },
  'usage.merge_names': { every_ms: 10_000 },
  'usage.stop_meters': { every_ms: 600_000 },
  'usage.merge_children': { every_ms: 10_000 },
  'usage.deepen': { every_ms: 10_000 },
  'billing.hear': { every_ms: 1000 },
  'billing.purge': { every_ms: 600_000 },
  'billing.announce_cards': { every_ms: 600_000 },
  'billing.forget_links': { every_ms: 600_000 },
  'webhooks.keep': { every_ms: 600_000 },
  'insights.fold': { every_ms: 10_000 },
  'insights.check': { every_ms: 600_000 },
} as const satisfies Record<string, { every_ms: number }>

export type PeriodicTaskName = keyof typeof periodicTasks
export type SweepName = keyof typeof sweeps
export type GroupName = keyof typeof groups
export type DaemonName = keyof typeof daemons
export type DueTable = (typeof sweeps)[SweepName]['table'] | (typeof daemons)[DaemonName]['table']
