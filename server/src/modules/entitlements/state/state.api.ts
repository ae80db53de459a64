import { getCustomerState, getCustomerStateToken, getExternalCustomerState, getExternalCustomerStateToken } from '@bursar/contract'
import { read, sweep } from '../../handlers.ts'
import { requireCustomerState, sign, emitCustomerState, emitCustomerStates } from './state.ts'

export const operations = [
  read(getCustomerState, (db, { scope, params, query, platform }) => requireCustomerState(db, scope, platform.clock.wall(), params, query.member_id)),
  read(getExternalCustomerState, (db, { scope, params, query, platform }) => requireCustomerState(db, scope, platform.clock.wall(), params, query.member_id)),
  read(getCustomerStateToken, (db, { scope, params, query, platform }) => sign(db, scope, platform, params, query.member_id)),
  read(getExternalCustomerStateToken, (db, { scope, params, query, platform }) => sign(db, scope, platform, params, query.member_id)),
]
export const sweeps = [sweep('entitlements.tell_state', emitCustomerState, emitCustomerStates)]
