import type { TestCardLine } from '@bursar/views'
import { cards } from '../gateways/payments/test/cards.ts'

/** Returns some test cards of the sandbox with their descriptions. */
export const testCards = (...tokens: readonly (keyof typeof cards)[]): TestCardLine[] => tokens.map((token) => ({ token, ...cards[token] }))
