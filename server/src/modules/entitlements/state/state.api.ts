import { getCustomerState, getCustomerStateToken, getExternalCustomerState, getExternalCustomerStateToken } from '@bursar/contract'
import { read, sweep } from '../../handlers.ts'
import { find, sign, tell } from './state.ts'

export const operations = [
  read(getCustomerState, (db, { reach, params, query }) => find(db, reach, params, query.member_id)),
  read(getExternalCustomerState, (db, { reach, params, query }) => find(db, reach, params, query.member_id)),
  read(getCustomerStateToken, (db, { reach, params, query, platform }) => sign(db, reach, platform, params, query.member_id)),
  read(getExternalCustomerStateToken, (db, { reach, params, query, platform }) => sign(db, reach, platform, params, query.member_id)),
]
export const sweeps = [sweep('entitlements.tell_state', tell)]
