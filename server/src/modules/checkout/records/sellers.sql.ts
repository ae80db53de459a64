import { sql } from 'kysely'
import type { findLivingOrganization } from '../../organizations/index.ts'
import { fromJson, type JsonRow } from '../../../platform/postgres/json-rows.ts'

export type Seller = NonNullable<Awaited<ReturnType<typeof findLivingOrganization>>>

/** The seller of a statement that joins `organizations o`. */
export const sellerColumn = sql`to_json(o) as seller`

export const parseSeller = (seller: JsonRow<Seller>): Seller =>
  fromJson<Seller>(seller, {
    created_at: true,
    modified_at: true,
    deleted_at: true,
    status_changed_at: true,
    details_submitted_at: true,
    onboarding_resubmission_requested_at: true,
  })

/** The publishable key for the payment form of the seller with this id. Null if the processor needs none. */
export const publishableKey = (organization: string) => sql<string | null>`
  (select a.publishable_key from payment_accounts a where a.organization_id = ${sql.ref(organization)} and a.is_default)`
