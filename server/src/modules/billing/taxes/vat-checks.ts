import type { VatService, VatStatus } from '../../../gateways/tax/vat.ts'
import { Secret, type Hasher } from '../../../kernel/secrets.ts'
import { days, later, minutes } from '../../../platform/clock.ts'
import type { Transact, Tx } from '../../../platform/postgres/postgres.ts'
import { findVatCheck, saveVatCheck } from './vat-checks.sql.ts'

declare module '../../../platform/postgres/postgres.ts' {
  interface Answers {
    /** Answers of the VAT service by number. */
    readonly vat?: ReadonlyMap<string, VatStatus>
  }
  interface Tx {
    /** Charges the caller of the request, each time before the VAT service is asked. Absent outside of requests. */
    readonly chargeVatCheck?: () => Promise<void>
  }
}

/** A VAT number, and the organization to whose checkout it belongs. */
export interface VatQuestion {
  readonly organization_id: string
  readonly number: string
}

/** How long an answer counts. A service that did not answer is asked again soon, but not with each key that a buyer presses. */
const counts = { valid: 1 * days, invalid: 1 * days, unverified: 10 * minutes } as const satisfies Record<VatStatus, number>

/** Thrown inside a transaction that needs the check of a VAT number. `askingVatService` asks, and runs the transaction again. */
class VatCheckNeeded extends Error {
  override readonly name = 'VatCheckNeeded'
  readonly question: VatQuestion
  readonly charge: Tx['chargeVatCheck']
  constructor(question: VatQuestion, charge: Tx['chargeVatCheck']) {
    super('the VAT service must be asked before this transaction')
    this.question = question
    this.charge = charge
  }
}

/** Each organization has its own answers. Otherwise the time of an answer would tell whether another seller has this customer. */
const secretOf = ({ organization_id, number }: VatQuestion) => new Secret(`vat number ${number} of ${organization_id}`)

/** Returns the result of the check of a VAT number. Throws `VatCheckNeeded` if the service was not asked in the last day. */
export const checkVatNumber = async (tx: Tx, hasher: Hasher, question: VatQuestion): Promise<VatStatus> => {
  const status = tx.answers?.vat?.get(question.number) ?? (await findVatCheck(tx, hasher.candidates(secretOf(question)), tx.clock.wall()))
  if (status === undefined) throw new VatCheckNeeded(question, tx.chargeVatCheck)
  return status
}

/**
 * Wraps `transact`, so that a transaction can use checks of VAT numbers. The service is asked only after the transaction
 * was rolled back. No connection and no lock is held while the service is slow. The caller is charged before each question,
 * because the service has limits of its own.
 */
export const askingVatService =
  (transact: Transact, service: VatService | undefined, hasher: Hasher): Transact =>
  async (work) => {
    const vat = new Map<string, VatStatus>()
    for (;;)
      try {
        return await transact((tx) => work(vat.size === 0 ? tx : { ...tx, answers: { asked_at: tx.clock.wall(), ...tx.answers, vat } }))
      } catch (error) {
        // A number is asked once, so the loop ends.
        if (!(error instanceof VatCheckNeeded) || vat.has(error.question.number)) throw error
        const { question, charge } = error
        await charge?.()
        const status = service ? await service.check(question.number) : 'unverified'
        vat.set(question.number, status)
        // Saved by itself, because the transaction is rolled back if the number is invalid.
        await transact((tx) => saveVatCheck(tx, { hash: hasher.hash(secretOf(question)), status, ends_at: later(tx.clock.wall(), counts[status]) }))
      }
  }
