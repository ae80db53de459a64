import { costsOf, type Cost, type Operation } from '@bursar/contract'
import { sweeps } from '../../src/platform/jobs/catalogue.ts'
import type { World } from '../harness/world.ts'
import type { Asked, Policy, Target } from './matrix/policy.ts'
import { unique } from './matrix/policies/shared.ts'

/** The tables whose new or changed rows prove a cost. Rows of the sweeps prove `jobs` only if they are due at once. */
const proofs: readonly (readonly [Cost, table: string, condition?: string])[] = [
  ['money', 'payments'],
  ['money', 'refunds'],
  ['money', 'test_processor.methods'],
  ['money', 'test_processor.intents'],
  ['money', 'test_processor.charges'],
  // A renamed or deleted file needs no additional bytes.
  ['storage', 'files', 'modified_at is null and deleted_at is null'],
  ['storage', 'documents'],
  ['jobs', 'webhook_deliveries', `status = 'waiting'`],
]

/** A row counts if a transaction since $1 wrote it. A job that replaced one with the same key therefore counts too. */
const written = 'xmin::text::bigint >= $1::bigint'
const search = [
  `select case when identifier like 'mail.%' then 'mail' else 'jobs' end as cost, identifier as reason
   from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id where j.${written}`,
  ...Object.entries(sweeps).map(
    ([name, { table }]) =>
      `select 'jobs', '${name}' from ${table} where ${written} and due_at <= clock_timestamp() + interval '2 seconds' and clock_id is null`,
  ),
  ...proofs.map(([cost, table, condition = 'true']) => `select '${cost}', '${table}' from ${table} where ${written} and ${condition}`),
].join(' union ')

/**
 * Requests that cause a declared cost which the ordinary request of the policy does not cause. Each replaces the body, or
 * the body and the path. The matrix sends them as proof of the declaration, and `pnpm abuse` attacks with them.
 */
const costly: Readonly<Record<string, (target: Target) => Partial<Asked>>> = {
  'products:update': () => ({ body: { is_archived: true } }),
  'products:update_benefits': (t) => ({ body: { benefits: [t.benefit_id] } }),
  'meters:update': () => ({ body: { filter: { conjunction: 'and', clauses: [{ property: 'name', operator: 'eq', value: unique() }] } } }),
  'benefits:update': () => ({ body: { type: 'custom', metadata: { serial: unique() } } }),
  'members:update_member': () => ({ body: { role: 'owner' } }),
  'members:update_member_by_external_id': () => ({ body: { role: 'owner' } }),
  'customers:members:update': () => ({ body: { role: 'owner' } }),
  'customers:members:update_external': () => ({ body: { role: 'owner' } }),
  'customer-seats:assign_seat': (t) => ({ body: { subscription_id: t.seated_id, email: `costly-${unique()}@people.test`, immediate_claim: true } }),
  'files:create': (t) => ({
    body: {
      service: 'downloadable',
      name: 'costly.bin',
      mime_type: 'application/octet-stream',
      size: 262_144,
      upload: { parts: [{ number: 1, chunk_start: 0, chunk_end: 262_144 }] },
      ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
    },
  }),
  'test-clocks:advance': () => ({ body: { by_seconds: 3600 } }),
  // Each event has a subject of its own, which is the most work for one event.
  'events:ingest': (t) => ({
    body: {
      events: Array.from({ length: 500 }, () => ({
        name: 'costly',
        external_customer_id: `costly-${unique()}`,
        ...(t.organization_id === '' ? {} : { organization_id: t.organization_id }),
      })),
    },
  }),
  'checkouts:client_confirm': () => ({
    body: {
      customer_name: 'Buyer',
      customer_email: `costly-${unique()}@people.test`,
      customer_billing_address: { country: 'DE' },
      confirmation_token_id: 'tok_visa',
    },
  }),
}

/** Returns the policy with the costly request of the operation, if the operation has one. */
export const costlyPolicy = (id: string, row: Policy): Policy | undefined => {
  const request = costly[id]
  return request && { ...row, ask: (target) => ({ ...row.ask(target), ...request(target) }) }
}

/**
 * Declared costs that no request of the matrix causes, because they need more steps than one request, or a worker. The
 * tests of each area cover them. The matrix fails if one of them is caused after all.
 */
const unproved: Readonly<Record<string, readonly Cost[]>> = {
  // Need a Stripe account, a signed event or a signed report.
  'payment-accounts:connect': ['mail', 'jobs'],
  'payment-accounts:receive_event': ['jobs'],
  'integrations:report_leaked_tokens': ['mail'],
  // Need a secret from a mail.
  'customer_portal:customers:verify_email_update': ['mail', 'jobs'],
  'customer-seats:claim_seat': ['jobs'],
  'customer-seats:request_invitation': ['mail'],
  // These cost something only with a claimed seat, a new owner, an external account, or a paused endpoint with events.
  'customer-seats:revoke_seat': ['jobs'],
  'customer_portal:seats:revoke_seat': ['jobs'],
  'customer_portal:members:update_member': ['jobs'],
  'customer_portal:benefit-grants:update': ['jobs'],
  'webhooks:redeliver_webhook_event': ['jobs'],
  'webhooks:update_webhook_endpoint': ['jobs'],
  // This costs something only after the bytes were uploaded.
  'files:uploaded': ['jobs', 'storage'],
  // These operations cost something only for an order with billing details, an invoice, a payment or a refund.
  'orders:update': ['jobs', 'storage'],
  'customer_portal:orders:update': ['jobs', 'storage'],
  'orders:generate_invoice': ['jobs', 'storage'],
  'customer_portal:orders:generate_invoice': ['jobs', 'storage'],
  'orders:invoice': ['jobs', 'storage'],
  'customer_portal:orders:invoice': ['jobs', 'storage'],
  'customer_portal:orders:receipt': ['jobs', 'storage'],
  'customer_portal:orders:credit_note': ['jobs', 'storage'],
  // Need a charge that the processor knows, or a change that is paid at once. A worker sends the mail.
  'checkouts:client_confirm': ['mail'],
  'customer_portal:customers:confirm_payment_method': ['money', 'jobs'],
  'customer_portal:subscriptions:update': ['mail', 'money', 'jobs'],
  'disputes:accept': ['money', 'jobs'],
  'orders:finalize': ['mail', 'money', 'jobs'],
  'refunds:create': ['jobs'],
  'subscriptions:update': ['mail', 'money'],
  // Periodic tasks of a worker merge the totals, and make the customer meters due.
  'events:ingest': ['jobs'],
  'events:correct': ['jobs'],
  // Need a customer whose subscription renews while a worker advances the clock.
  'test-clocks:advance': ['mail', 'money'],
  // Need an organization that has not migrated its members yet.
  'member-migration:start': ['jobs'],
  'member-migration:switch': ['jobs'],
  'member-migration:undo': ['jobs'],
  'member-migration:seal': ['jobs'],
}

/** Compares the `costs` that operations declare with the jobs and rows that their requests cause. */
export const openCostWatch = (database: World['database']) => {
  const seen = new Map<string, Map<Cost, Set<string>>>()
  return {
    /** Runs a request of the operation and records what it causes. No other request may run at the same time. */
    during: async <T>({ id }: Operation, request: () => Promise<T>): Promise<T> => {
      const since = await database.owner((owner) => owner.query<{ id: string }>('select pg_current_xact_id()::text as id'))
      const answer = await request()
      const { rows } = await database.owner((owner) => owner.query<{ cost: Cost; reason: string }>(search, [since.rows[0]!.id]))
      const costs = seen.get(id) ?? new Map<Cost, Set<string>>()
      seen.set(id, costs)
      for (const { cost, reason } of rows) costs.set(cost, (costs.get(cost) ?? new Set()).add(reason))
      return answer
    },
    /** Lists the wrong declarations of the operations whose requests have run. */
    problems: (operations: readonly Operation[]): string[] =>
      operations.flatMap((operation) => {
        const [caused, declared] = [seen.get(operation.id) ?? new Map<Cost, Set<string>>(), costsOf(operation)]
        const excused = unproved[operation.id] ?? []
        const polls = operation.query !== undefined && 'shape' in operation.query && 'wait' in (operation.query.shape as object)
        return [
          ...[...caused]
            .filter(([cost]) => !declared.includes(cost))
            .map(([cost, reasons]) => `causes ${cost} (${[...reasons].join()}) and does not declare it`),
          ...declared
            .filter((cost) => cost !== 'polls' && !caused.has(cost) && !excused.includes(cost))
            .map((cost) => `declares ${cost} and does not cause it`),
          ...excused.filter((cost) => caused.has(cost)).map((cost) => `causes ${cost}, which is listed as unproved`),
          ...(polls === declared.includes('polls') ? [] : ['declares polls and has no parameter "wait", or the reverse']),
        ].map((problem) => `${operation.id} ${problem}`)
      }),
  }
}
