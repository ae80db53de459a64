import { connectPaymentAccount, getPaymentAccount } from '@bursar/contract'
import { job, read, multiStep } from '../../handlers.ts'
import { connect, requirePaymentAccount, look, mailChanged } from './accounts.ts'

export const operations = [
  read(getPaymentAccount, (db, { scope, params, platform }) => requirePaymentAccount(db, scope, platform, params.id)),
  multiStep(connectPaymentAccount, {
    look: (deps, { scope, params, body }) => look(deps, scope, params.id, body),
    begin: (tx, { scope, params, body, platform }, account) => connect(tx, scope, platform, params.id, body, account),
    proceed: ({ db }, { scope, params, platform }) => requirePaymentAccount(db, scope, platform, params.id),
  }),
]

export const jobs = [job('mail.payment_account_changed', mailChanged)]
