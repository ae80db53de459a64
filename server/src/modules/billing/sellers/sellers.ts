import type { SellerIdentity, SellerIdentityUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { TenantScope } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { completeAddress } from '../../customers/index.ts'
import { chooseOne, chooseOrganization, findOrganization, permit, type OrganizationRow } from '../../organizations/index.ts'
import { findSellerIdentity, putSellerIdentity } from './sellers.sql.ts'

/** Returns the seller's identity for invoices: the stored one, or by default the data of the organization. */
export const requireSellerDetails = async (db: Db, scope: TenantScope, wanted: string | undefined): Promise<SellerIdentity> => {
  const organization_id = chooseOne(scope, wanted === undefined ? [] : [wanted])
  permit(scope, organization_id, 'finance:read')
  return identityOf(db, (await findOrganization(db, scope, organization_id))!)
}

export const identityOf = async (db: Db, seller: OrganizationRow): Promise<SellerIdentity> =>
  (await findSellerIdentity(db, seller.id)) ?? {
    organization_id: seller.id,
    modified_at: null,
    legal_name: registeredName(seller.legal_entity) ?? seller.name,
    address: null,
    tax_id: null,
    email: seller.email,
    footer: null,
  }

const registeredName = (entity: unknown): string | null =>
  typeof entity === 'object' && entity !== null && 'registered_name' in entity && typeof entity.registered_name === 'string' ? entity.registered_name : null

/** Replaces the whole seller identity. Invoices that were requested earlier keep the old identity. */
export const updateSellerDetails = async (tx: Tx, scope: TenantScope, body: z.output<typeof SellerIdentityUpdate>): Promise<SellerIdentity> => {
  const organization_id = chooseOrganization(scope, body.organization_id ?? undefined)
  permit(scope, organization_id, 'finance:manage')
  const { legal_name, address, tax_id = null, email = null, footer = null } = body
  return putSellerIdentity(tx, { organization_id, modified_at: tx.clock.wall(), legal_name, address: completeAddress(address), tax_id, email, footer })
}
