import { de } from './de.ts'
import { en } from './en.ts'

/** The texts that the portal pages share. */
export const portalTexts = { en, de }
