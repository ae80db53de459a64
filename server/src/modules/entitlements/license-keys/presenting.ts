import type { LicenseKeyRead } from '@bursar/contract'
import { phaseOf, type PortalActor, type Reach } from '../../../kernel/actors.ts'
import { referred } from '../../../platform/postgres/lists.sql.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { allows, avatarOf, loadCustomers, loadOwners, presentCustomer, shownCustomer, type CustomerRow } from '../../customers/index.ts'
import { sealedFor } from './giving.ts'
import type { ActivationRow, LicenseKeyRow } from './license-keys.sql.ts'

/** A key, with all that is shown of it. */
export interface LoadedKey {
  readonly key: LicenseKeyRow
  /** Whose it is shown to be. */
  readonly customer: CustomerRow
  /** Who has it. */
  readonly member_id: string | null
}

/** Keys with all that is shown of them, in their order. Whoever had them may be gone: they are shown all the same. */
export const loadKeys = async (db: Db, reach: Reach, rows: readonly LicenseKeyRow[]): Promise<LoadedKey[]> => {
  if (rows.length === 0) return []
  const whose = (row: LicenseKeyRow) => shownCustomer(row, phaseOf(reach, row.organization_id))
  const direct = referred(rows, (row) => (row.member_id === null ? whose(row) : null)).map(({ tenant, id }) => ({ organization_id: tenant, id }))
  const [customers, owners] = await Promise.all([loadCustomers(db, reach, rows.map(whose)), loadOwners(db, direct)])
  const customer = new Map(customers.map((one) => [one.id, one]))
  const owner = new Map(owners.map((one) => [one.customer_id, one.id]))
  return rows.map((key) => ({
    key,
    // The database's own keys hold it: it is there.
    customer: customer.get(whose(key))!,
    member_id: key.member_id ?? owner.get(whose(key)) ?? null,
  }))
}

/** For whom it is shown: its seller; who pays, in the portal; or whoever has the key, which is all that is known of them. */
export type Viewer = 'seller' | 'payer' | 'bearer'
export const viewerOf = ({ role }: PortalActor): Viewer => (allows(role, 'billing:read') ? 'payer' : 'bearer')

const presentHolder = ({ key, customer }: LoadedKey, viewer: Viewer): LicenseKeyRead['customer'] => {
  const shown = presentCustomer(customer)
  if (viewer === 'seller') return shown
  const seen = { ...shown, metadata: {}, external_id: null }
  if (viewer === 'payer') return seen
  const { id, name } = customer
  // A member's key says whom they belong to, and nothing of how to reach those.
  const own = key.member_id === null || customer.id === key.holder_customer_id
  const hidden = { billing_name: null, billing_address: null, tax_id: null, default_payment_method_id: null }
  return own ? { ...seen, ...hidden } : { ...seen, ...hidden, email: null, email_verified: false, avatar_url: avatarOf({ id, name, email: null }) }
}

/** The key as the wire shows it: in clear, to whoever may see it. */
export const presentKey = ({ sealer }: Pick<Platform, 'sealer'>, loaded: LoadedKey, viewer: Viewer): LicenseKeyRead => {
  const { key, customer, member_id } = loaded
  const { hash: _hash, pepper: _pepper, key_sealed, grant_id: _grant, buyer_customer_id: _buyer, holder_customer_id: _holder, overrides: _, ...shown } = key
  return {
    ...shown,
    customer_id: customer.id,
    customer: presentHolder(loaded, viewer),
    member_id,
    key: sealer.open(key_sealed, sealedFor(key)).reveal(),
  }
}

/** One key for one viewer. */
export const showKey = async (db: Db, reach: Reach, platform: Pick<Platform, 'sealer'>, key: LicenseKeyRow, viewer: Viewer): Promise<LicenseKeyRead> =>
  presentKey(platform, (await loadKeys(db, reach, [key]))[0]!, viewer)

/** Where a key is in use. Under which conditions is between the application and us. */
export const presentActivation = ({ organization_id: _, conditions: _conditions, label, ...shown }: ActivationRow) => ({ ...shown, label: label ?? '' })
