import { de } from './de.ts'
import { en } from './en.ts'

/** The texts that the account pages share. */
export const accountTexts = { en, de }
