import type { TestCardLine } from '@bursar/contract'
import { cards } from '../gateways/payments/test/cards.ts'

/** Some of the sandbox's cards, in the words of what they do. */
export const testCards = (...tokens: readonly (keyof typeof cards)[]): TestCardLine[] => tokens.map((token) => ({ token, ...cards[token] }))
