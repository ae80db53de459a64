import type { Area } from '../handlers.ts'
import { operations as downloadables } from './downloadables/downloadables.api.ts'
import { operations as licenseKeys } from './license-keys/license-keys.api.ts'
import * as grants from './grants/grants.api.ts'
import * as state from './state/state.api.ts'

export const area: Area = {
  operations: [...downloadables, ...licenseKeys, ...grants.operations, ...state.operations],
  jobs: grants.jobs,
  sweeps: [...grants.sweeps, ...state.sweeps],
  chores: [],
  personal: {
    // Under which name somebody was let in elsewhere. The account stays until it has been shown out, and is gone with that.
    benefit_grants: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: { account: 'kept', properties: 'empty' } },
    license_keys: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: {} },
    // What somebody called the place where they use a key.
    license_key_activations: {
      through: { column: 'license_key_id', table: 'license_keys' },
      of: 'buyer_customer_id',
      also: 'holder_customer_id',
      columns: { label: 'nothing', meta: 'empty', conditions: 'empty' },
    },
  },
  secret: { license_keys: ['hash', 'pepper', 'key_sealed'] },
}

export { findGrant } from './grants/grants.sql.ts'
export { loadGrants, presentGrant } from './grants/presenting.ts'
export { grantByHand } from './grants/grants.ts'
export { saveGrants, type GrantRow } from './grants/grants.sql.ts'
export { insertDownloadables } from './downloadables/downloadables.sql.ts'
export { lockAway as lockKeyAway, settingsOf as keySettings } from './license-keys/giving.ts'
export { insertActivation, saveKeys, type LicenseKeyRow } from './license-keys/license-keys.sql.ts'
export { activate as activateKey } from './license-keys/using.ts'
export { ensureLicenceKeys, rotateLicenceKeys } from './license-keys/offline.ts'
