import type { SellerIdentity, SellerIdentityUpdate } from '@bursar/contract'
import type { z } from 'zod'
import type { Reach } from '../../../kernel/actors.ts'
import type { Db, Tx } from '../../../platform/postgres/postgres.ts'
import { completeAddress } from '../../customers/index.ts'
import { chooseOne, chooseOrganization, findOrganization, permit, type OrganizationRow } from '../../organizations/index.ts'
import { findSellerIdentity, putSellerIdentity } from './sellers.sql.ts'

/** Who sells, as it stands on invoices: what was set, or what the organization says of itself. */
export const find = async (db: Db, reach: Reach, wanted: string | undefined): Promise<SellerIdentity> => {
  const organization_id = chooseOne(reach, wanted === undefined ? [] : [wanted])
  permit(reach, organization_id, 'finance:read')
  return identityOf(db, (await findOrganization(db, reach, organization_id))!)
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

/** Replaces all there is. What was asked for before keeps what it said. */
export const update = async (tx: Tx, reach: Reach, body: z.output<typeof SellerIdentityUpdate>): Promise<SellerIdentity> => {
  const organization_id = chooseOrganization(reach, body.organization_id ?? undefined)
  permit(reach, organization_id, 'finance:manage')
  const { legal_name, address, tax_id = null, email = null, footer = null } = body
  return putSellerIdentity(tx, { organization_id, modified_at: tx.clock.business(), legal_name, address: completeAddress(address), tax_id, email, footer })
}
