import type { Invariant, Violation } from './checker.ts'
import type { Played } from './play.ts'

/** Kinds of steps of which the server must have accepted at least one in a run that is long enough. */
const required = [
  'buy',
  'upgrade (organization)',
  'upgrade (portal)',
  'downgrade (organization)',
  'downgrade (portal)',
  'seats (organization)',
  'seats (portal)',
  'refund',
  'dispute opened',
  'dispute won',
  'dispute lost',
  'cancel (organization)',
  'cancel (portal)',
  'uncancel',
  'renew',
  'wait',
  'add card',
  'remove card',
  'settle',
] as const

/** Counts steps by kind and result, and violations by invariant. */
export const openReport = () => {
  const kinds = new Map<string, { accepted: number; refused: number; skipped: number }>()
  const found = new Map<Invariant, number>()
  return {
    add: ({ counted }: Played): void => {
      for (const { kind, result } of counted) {
        const counts = kinds.get(kind) ?? { accepted: 0, refused: 0, skipped: 0 }
        counts[result]++
        kinds.set(kind, counts)
      }
    },
    /** Records a violation. Returns how many violations of the same invariant were found so far. */
    found: ({ invariant }: Violation): number => {
      found.set(invariant, (found.get(invariant) ?? 0) + 1)
      return found.get(invariant)!
    },
    steps: (): number => [...kinds.values()].reduce((sum, { accepted, refused, skipped }) => sum + accepted + refused + skipped, 0),
    neverAccepted: (): string[] => required.filter((kind) => (kinds.get(kind)?.accepted ?? 0) === 0),
    table: (): string =>
      [
        `${'step'.padEnd(26)}${'accepted'.padStart(10)}${'refused'.padStart(10)}${'skipped'.padStart(10)}${'share accepted'.padStart(16)}`,
        ...[...kinds]
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([kind, { accepted, refused, skipped }]) => {
            const share = accepted + refused === 0 ? '–' : `${Math.round((100 * accepted) / (accepted + refused))} %`
            return `${kind.padEnd(26)}${[accepted, refused, skipped].map((count) => String(count).padStart(10)).join('')}${share.padStart(16)}`
          }),
        ...[...found].map(([invariant, count]) => `${invariant} invariant violated ${count} times`),
      ].join('\n'),
  }
}
