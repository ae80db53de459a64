import { sql, type RawBuilder } from 'kysely'
import { isOneOf, oneOf } from '../../../platform/postgres/parts.sql.ts'
import type { Question } from '../calc/question.ts'

export const moments = (at: readonly Date[]) => sql`${at.map((one) => one.toISOString())}::timestamptz[]`

export const ofOrganizations = ({ organizations }: Question): RawBuilder<unknown> => sql`organization_id = ${oneOf(organizations)}`

/** The conditions on the products and customers of a fact or a span. */
export const conditionsOf = (question: Question, { customers = true } = {}): RawBuilder<unknown>[] => {
  const { product_id, billing_type, customer_id } = question
  const [type, another] = new Set(billing_type)
  return [
    ofOrganizations(question),
    ...(product_id.length > 0 ? [isOneOf('product_id', product_id)] : []),
    ...(type !== undefined && another === undefined
      ? [
          sql`product_id in (select p.id from products p where p.organization_id = ${oneOf(question.organizations)}
            and (p.recurring_interval is not null) = ${type === 'recurring'})`,
        ]
      : []),
    ...(customers && customer_id.length > 0 ? [isOneOf('customer_id', customer_id)] : []),
  ]
}

/** The condition on the subjects of usage events. Events belong to no product. */
export const ofSubjects = ({ organizations, customer_id }: Question): RawBuilder<unknown> =>
  customer_id.length === 0
    ? sql`true`
    : sql`subject_id in (select u.id from usage_subjects u where u.organization_id = ${oneOf(organizations)} and ${isOneOf('u.customer_id', customer_id)})`

export const all = (conditions: readonly RawBuilder<unknown>[]): RawBuilder<unknown> => sql.join(conditions, sql` and `)
