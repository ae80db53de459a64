import { draftLimits, getCheckoutDraft, saveCheckoutDraft } from '@bursar/contract'
import type { PageCall } from '../../modules/handlers.ts'
import { complaintsOf } from '../visits.ts'
import { typed } from './filling.ts'
import { unlessLocked } from './locking.ts'

/** Fields that are not stored: buttons, and the payment method. The token of a card can be used only once. */
const left: readonly string[] = ['without_discount', 'allow_trial', 'confirmation_token_id', 'payment_method_id']

const bytesOf = (text: string): number => Buffer.byteLength(JSON.stringify(text))

/** Leaves out the largest values until the rest fits into a draft. Otherwise one long answer would lose all others. */
export const fitting = (fields: Readonly<Record<string, string>>): Record<string, string> => {
  const sizes = Object.entries(fields).map(([name, value]) => ({ name, bytes: bytesOf(name) + bytesOf(value) + 2 }))
  const kept = new Set<string>()
  let bytes = 1
  for (const one of sizes.toSorted((a, b) => a.bytes - b.bytes)) {
    bytes += one.bytes
    if (bytes > draftLimits.bytes || kept.size === draftLimits.fields) break
    kept.add(one.name)
  }
  return Object.fromEntries(Object.entries(fields).filter(([name]) => kept.has(name)))
}

/**
 * Stores what the buyer has typed, so that a reload shows it again. Waits while the price is computed, which locks the
 * checkout. Any other failure is ignored, because the page that the buyer sees contains the input anyway. Fields that look
 * like card data are left out.
 */
export const saveDraft = async (call: PageCall, client_secret: string): Promise<void> => {
  const fields = fitting(Object.fromEntries(Object.entries(typed(call.form)).filter(([name]) => !left.includes(name))))
  const save = (kept: typeof fields) => unlessLocked(() => call.api().send(saveCheckoutDraft, { params: { client_secret }, body: { fields: kept } }))
  const first = await save(fields)
  if (first.status !== 422) return
  const refused = new Set(complaintsOf(first).map(({ loc }) => loc.at(-1)))
  if (Object.keys(fields).some((name) => refused.has(name))) await save(Object.fromEntries(Object.entries(fields).filter(([name]) => !refused.has(name))))
}

interface Draft {
  readonly form: URLSearchParams
  /** True if the buyer typed something after the last change of the checkout. */
  readonly isNewer: boolean
}

/** Loads what the buyer has typed before, as a form. Returns null if there is none. */
export const loadDraft = async (call: PageCall, client_secret: string, checkout: { created_at: string; modified_at: string | null }): Promise<Draft | null> => {
  const { status, body } = await call.api().send(getCheckoutDraft, { params: { client_secret } })
  if (status !== 200 || Object.keys(body.fields).length === 0) return null
  return { form: new URLSearchParams(body.fields), isNewer: Date.parse(body.modified_at!) > Date.parse(checkout.modified_at ?? checkout.created_at) }
}
