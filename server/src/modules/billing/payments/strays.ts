import { ProcessorRefusal, ProcessorSilent, type Intent, type Payments } from '../../../gateways/payments/payments.ts'
import { enqueue } from '../../../platform/jobs/enqueue.sql.ts'
import type { Means } from '../../handlers.ts'
import { lockPayment, nameIntent, openAccount } from './attempts.sql.ts'
import type { PaymentRow } from './payments.sql.ts'
import { countChargeable, hasStrays, listChargeable, listStrays, lockStrays, noteStray, settleStray, type StrayRow } from './strays.sql.ts'

/** Accounts whose processor does not answer, or not with the keys that we have. */
export class AccountsSilent extends Error {
  readonly accounts: readonly string[]
  constructor(accounts: readonly string[]) {
    super(`no answer from ${accounts.join(', ')}`)
    this.accounts = accounts
  }
}

/** So many customers are asked about side by side. */
const atOnce = 8

const moved = ({ kind, status }: Intent) => kind === 'payment' && (status === 'succeeded' || status === 'processing')

/**
 * Asks the processors what they have charged those whom we can charge while they are away, and takes down all that this
 * database knows nothing of: after that, none of it is charged a second time. Asked again, it adds what has come since.
 */
export const findStrays = async (
  means: Pick<Means, 'db' | 'transact' | 'platform'> & { readonly payments: Payments },
  told: (done: number, all: number) => void,
  without: readonly string[] = [],
): Promise<StrayRow[]> => {
  const silent = new Set<string>()
  const all = await countChargeable(means.db)
  let done = 0
  for (let after: Parameters<typeof listChargeable>[1]; ;) {
    const some = await listChargeable(means.db, after, atOnce)
    if (some.length === 0) break
    await Promise.all(
      some.map(async (one) => {
        const processor = means.payments.of(openAccount(means.platform.sealer, one))
        const customer = processor.createCustomer ? one.processor_customer_id : one.customer_id
        // Whom the processor was never told of, it never charged.
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
          await means.transact(async (tx) => {
            for (const intent of charged) await noteStray(tx, one, one.customer_id, intent)
          })
      }),
    )
    after = some.at(-1)
    told((done += some.length), all)
  }
  if (silent.size > 0) throw new AccountsSilent([...silent])
  return listStrays(means.db)
}

/**
 * What a processor has already charged for this, as far as a restored database has learnt of it: then that is what the
 * attempt is settled with. Where it charged something else, nothing is asked for until a person has looked.
 */
export const adopt = async ({ db, transact, platform }: Means, payment: PaymentRow): Promise<string | undefined> => {
  // Nearly always there is none, and it costs no transaction to know.
  if (!(await hasStrays(db, payment))) return undefined
  return transact(async (tx) => {
    const { intent_id, status } = (await lockPayment(tx, payment.organization_id, payment.id))!
    // Somebody else has adopted one for it just now, or has settled it as never made.
    if (intent_id !== null) return intent_id
    if (status !== 'pending') throw new ProcessorSilent('createIntent')
    const strays = await lockStrays(tx, payment)
    if (strays.length === 0) return undefined
    const same = strays.find(({ amount, currency }) => amount === payment.amount && currency === payment.currency)
    // What was bought with its owner there is seen to by a person, and keeps nothing else from being charged.
    if (!same && strays.every(({ trigger }) => trigger === 'purchase')) return undefined
    if (!same) {
      platform.log.error('charge_unclear', { organization_id: payment.organization_id, payment_id: payment.id })
      throw new ProcessorSilent('createIntent')
    }
    await settleStray(tx, same, payment.id)
    await nameIntent(tx, payment.organization_id, payment.id, { id: same.intent_id, status: 'processing' })
    await enqueue(tx, 'billing.charge_adopted', { organization_id: payment.organization_id, payment_id: payment.id })
    platform.log.warn('charge_adopted', { organization_id: payment.organization_id, payment_id: payment.id })
    return same.intent_id
  })
}

/** A person has seen to a charge that nothing here is about: its customer is charged as usual from now on. */
export const dismissStray = ({ transact }: Pick<Means, 'transact'>, intent_id: string): Promise<boolean> =>
  transact((tx) => settleStray(tx, { intent_id }, null))
