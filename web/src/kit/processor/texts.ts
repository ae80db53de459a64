import { de } from './de.ts'
import { en } from './en.ts'

/** The texts of the payment processor's form and of the page of the payer's bank. */
export const processorTexts = { en, de }
