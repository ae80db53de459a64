import { ProcessorRefusal, ProcessorSilent, type Intent, type Payments } from '../../../gateways/payments/payments.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Deps } from '../../handlers.ts'
import { lockPayment, nameIntents, openAccount } from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'
import {
  countChargeable,
  findUnmatchedCustomers,
  listChargeable,
  listUnmatchedCharges,
  lockUnmatchedCharges,
  insertUnmatchedCharge,
  settleUnmatchedCharge,
  type UnmatchedChargeRow,
} from './unmatched-charges.sql.ts'

/** Thrown for accounts whose processor does not answer, or refuses the stored keys. */
export class AccountsSilent extends Error {
  readonly accounts: readonly string[]
  constructor(accounts: readonly string[]) {
    super(`no answer from ${accounts.join(', ')}`)
    this.accounts = accounts
  }
}

/** Number of customers whose charges are read concurrently. */
const atOnce = 8

const moved = ({ kind, status }: Intent) => kind === 'payment' && (status === 'succeeded' || status === 'processing')

/**
 * Reads at the processors the charges of all customers who can be charged off-session. Records the charges that this
 * database does not know, so that they are not made again. A second run adds new charges.
 */
export const findUnmatchedCharges = async (
  deps: Pick<Deps, 'db' | 'transact' | 'platform'> & { readonly payments: Payments },
  told: (done: number, all: number) => void,
  without: readonly string[] = [],
): Promise<UnmatchedChargeRow[]> => {
  const silent = new Set<string>()
  const all = await countChargeable(deps.db)
  let done = 0
  for (let after: Parameters<typeof listChargeable>[1]; ;) {
    const some = await listChargeable(deps.db, after, atOnce)
    if (some.length === 0) break
    await Promise.all(
      some.map(async (one) => {
        const processor = deps.payments.of(openAccount(deps.platform.sealer, one))
        const customer = processor.createCustomer ? one.processor_customer_id : one.customer_id
        // The processor has no id for this customer, so it never made a charge.
        if (customer === null || without.includes(one.account_id) || silent.has(one.account_id)) return
        const charged = await processor.findIntents({ customer, metadata: { organization_id: one.organization_id } }).then(
          (intents) => intents.filter(moved),
          (error: unknown) => {
            if (!(error instanceof ProcessorSilent || error instanceof ProcessorRefusal)) throw error
            silent.add(one.account_id)
            return []
          },
        )
        if (charged.length > 0)
          await deps.transact(async (tx) => {
            for (const intent of charged) await insertUnmatchedCharge(tx, one, one.customer_id, intent)
          })
      }),
    )
    after = some.at(-1)
    told((done += some.length), all)
  }
  if (silent.size > 0) throw new AccountsSilent([...silent])
  return listUnmatchedCharges(deps.db)
}

/** Returns true if the customer of an attempt has unmatched charges. */
export type HasUnmatched = (payment: PaymentRow) => Promise<boolean>

/**
 * Adopts a charge that the processor already made and that a restored database did not know. The charge must have the
 * amount and currency of this payment. Returns its intent id. If no charge matches, throws unless all unmatched charges
 * are purchases. The attempt is then not charged until an operator has dismissed them.
 */
export const adopt = async (
  { db, transact, platform }: Deps,
  payment: PaymentRow,
  hasUnmatched: HasUnmatched = async ({ organization_id, customer_id }) => (await findUnmatchedCustomers(db, organization_id, [customer_id])).size > 0,
): Promise<string | undefined> => {
  // Avoids a transaction in the usual case without unmatched charges.
  if (!(await hasUnmatched(payment))) return undefined
  return transact(async (tx) => {
    const { intent_id, status } = (await lockPayment(tx, payment.organization_id, payment.id))!
    // A concurrent call has adopted a charge for this attempt, or has settled the attempt as failed without an intent.
    if (intent_id !== null) return intent_id
    if (status !== 'pending') throw new ProcessorSilent('createIntent')
    const strays = await lockUnmatchedCharges(tx, payment)
    if (strays.length === 0) return undefined
    const same = strays.find(({ amount, currency }) => amount === payment.amount && currency === payment.currency)
    // If all unmatched charges are purchases, they are left to an operator. They do not block this attempt, which is
    // charged as usual.
    if (!same && strays.every(({ trigger }) => trigger === 'purchase')) return undefined
    if (!same) {
      platform.log.error('charge_unclear', { organization_id: payment.organization_id, payment_id: payment.id })
      throw new ProcessorSilent('createIntent')
    }
    await settleUnmatchedCharge(tx, same, payment.id)
    await nameIntents(tx, payment.organization_id, [{ id: payment.id, intent_id: same.intent_id, intent_status: 'processing' }])
    await enqueue(tx, 'billing.charge_adopted', { organization_id: payment.organization_id, payment_id: payment.id })
    platform.log.warn('charge_adopted', { organization_id: payment.organization_id, payment_id: payment.id })
    return same.intent_id
  })
}

/** Marks an unmatched charge as handled by an operator. The charge no longer blocks new charges of its customer. */
export const dismissUnmatchedCharge = ({ transact }: Pick<Deps, 'transact'>, intent_id: string): Promise<boolean> =>
  transact((tx) => settleUnmatchedCharge(tx, { intent_id }, null))
