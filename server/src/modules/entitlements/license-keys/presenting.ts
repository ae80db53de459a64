import type { LicenseKeyRead } from '@bursar/contract'
import type { PortalActor, TenantScope } from '../../../kernel/actors.ts'
import type { Db } from '../../../platform/postgres/postgres.ts'
import type { Platform } from '../../handlers.ts'
import { allows, avatarOf, presentCustomer } from '../../customers/index.ts'
import { sealedFor } from '../issuing/license-keys.ts'
import { loadKey, type ActivationRow, type LicenseKeyRow, type LoadedKey } from '../records/license-keys.sql.ts'

/** Viewer of a key: its seller, a portal user who may read billing data, or a bearer. A bearer is any other viewer who has the key. */
export type Viewer = 'seller' | 'payer' | 'bearer'
export const viewerOf = ({ role }: PortalActor): Viewer => (allows(role, 'billing:read') ? 'payer' : 'bearer')

const presentHolder = ({ key, customer }: LoadedKey, viewer: Viewer): LicenseKeyRead['customer'] => {
  const shown = presentCustomer(customer)
  if (viewer === 'seller') return shown
  const seen = { ...shown, metadata: {}, external_id: null }
  if (viewer === 'payer') return seen
  const { id, name } = customer
  // The key of a member shows the name of the customer, but not the customer's email address or avatar.
  const own = key.member_id === null || customer.id === key.holder_customer_id
  const hidden = { billing_name: null, billing_address: null, tax_id: null, default_payment_method_id: null }
  return own ? { ...seen, ...hidden } : { ...seen, ...hidden, email: null, email_verified: false, avatar_url: avatarOf({ id, name, email: null }) }
}

/** Presents the key in the API's format, including the key in clear text. */
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

/** Loads the related records of one key and presents the key to a viewer. */
export const showKey = async (db: Db, scope: TenantScope, platform: Pick<Platform, 'sealer'>, key: LicenseKeyRow, viewer: Viewer): Promise<LicenseKeyRead> =>
  presentKey(platform, await loadKey(db, scope, key), viewer)

/** Presents an activation. The activation's conditions are omitted, because only the application and this server may know them. */
export const presentActivation = ({ organization_id: _, conditions: _conditions, label, ...shown }: ActivationRow) => ({ ...shown, label: label ?? '' })
