import { connectPaymentAccount, getPaymentAccount } from '@bursar/contract'
import { read, steps } from '../../handlers.ts'
import { connect, find, look } from './accounts.ts'

export const operations = [
  read(getPaymentAccount, (db, { reach, params, platform }) => find(db, reach, platform, params.id)),
  steps(connectPaymentAccount, {
    look: (means, { reach, params, body }) => look(means, reach, params.id, body),
    begin: (tx, { reach, params, body, platform }, account) => connect(tx, reach, platform, params.id, body, account),
    proceed: ({ db }, { reach, params, platform }) => find(db, reach, platform, params.id),
  }),
]
