import { invalidAt, InvalidRequest, ResourceNotFound, type AccessExplanation } from '@bursar/contract'
import { phaseOf, type TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import { findBenefit } from '../../catalog/index.ts'
import { findCustomers } from '../../customers/index.ts'
import { permit } from '../../organizations/index.ts'
import { chainOf, reasonOf } from './chains.ts'
import { findChains, findMemberRecipient, type Recipient } from './explanation.sql.ts'

const mostChains = 20

interface Question {
  readonly customer_id?: string | undefined
  readonly member_id?: string | undefined
  readonly benefit_id: string
}

/** Explains why a customer or a member has a benefit or not. */
export const explain = async (db: Db, scope: TenantScope, question: Question): Promise<AccessExplanation> => {
  const recipient = await findRecipient(db, scope, question)
  const benefit = await findBenefit(db, scope, question.benefit_id)
  if (!recipient || benefit?.organization_id !== recipient.organization_id) throw new ResourceNotFound()
  const { organization_id } = recipient
  permit(scope, organization_id, 'customers:read')
  const rows = await findChains(db, recipient, benefit.id, phaseOf(scope, organization_id), mostChains + 1)
  return {
    has_access: rows.some(({ granted_at }) => granted_at !== null),
    reason: reasonOf(rows),
    benefit_id: benefit.id,
    benefit_type: benefit.type,
    benefit_description: benefit.description,
    customer_id: recipient.customer_id,
    member_id: recipient.member_id,
    chains: rows.slice(0, mostChains).map(chainOf),
    complete: rows.length <= mostChains,
  }
}

const findRecipient = async (db: Db, scope: TenantScope, { customer_id, member_id }: Question): Promise<Recipient | undefined> => {
  if ((customer_id === undefined) === (member_id === undefined))
    throw new InvalidRequest(invalidAt(['query', 'customer_id'], 'Send either customer_id or member_id.', customer_id))
  if (member_id !== undefined) return findMemberRecipient(db, scope, member_id)
  const [customer] = await findCustomers(db, scope, { id: customer_id! })
  return customer && { organization_id: customer.organization_id, customer_id: customer.id, member_id: null, is_owner: false }
}
