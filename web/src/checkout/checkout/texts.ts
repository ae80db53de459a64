import { de } from './de.ts'
import { en } from './en.ts'

/** The texts of the checkout page. */
export const texts = { en, de }
