import type { Area } from '../handlers.ts'
import { operations as downloadables } from './downloadables/downloadables.api.ts'
import { operations as licenseKeys } from './license-keys/license-keys.api.ts'
import { jobs as mails } from './mails/mails.api.ts'
import * as grants from './grants/grants.api.ts'
import * as customerMeters from './meters/customer-meters.api.ts'
import { operations as reservations } from './reservations/reservations.api.ts'
import * as state from './state/state.api.ts'

export const area: Area = {
  operations: [...downloadables, ...licenseKeys, ...grants.operations, ...state.operations, ...customerMeters.operations, ...reservations],
  jobs: [...mails, ...grants.jobs, ...customerMeters.jobs],
  sweeps: [...grants.sweeps, ...state.sweeps, ...customerMeters.sweeps],
  periodicTasks: [],
  personal: {
    // `account` and `properties` name an external account. `account` is kept until the account has been removed from the community, and is then cleared.
    benefit_grants: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: { account: 'kept', properties: 'empty' } },
    license_keys: { of: 'buyer_customer_id', also: 'holder_customer_id', columns: {} },
    // Labels that customers gave to their devices.
    license_key_activations: {
      through: { column: 'license_key_id', table: 'license_keys' },
      of: 'buyer_customer_id',
      also: 'holder_customer_id',
      columns: { label: 'nothing', meta: 'empty', conditions: 'empty' },
    },
  },
  secret: { license_keys: ['hash', 'pepper', 'key_sealed'] },
}

export { presentGrant } from './grants/presenting.ts'
export { grantByHand } from './grants/grants.ts'
export { findLoadedGrant } from './records/grant-lists.sql.ts'
export { saveGrants, type GrantRow } from './records/grants.sql.ts'
export { insertDownloadables } from './downloadables/downloadables.sql.ts'
export { lockKeyAway, keySettings } from './issuing/license-keys.ts'
export { insertActivation, saveKeys, type LicenseKeyRow } from './records/license-keys.sql.ts'
export { activateKey } from './license-keys/using.ts'
export { ensureLicenceKeys, rotateLicenceKeys } from './license-keys/offline.ts'
export { reserveUnits } from './reservations/reservations.ts'
