/**
 * Finds the known name that a misspelled one most likely meant. A match differs in case only, or by at most one edit per
 * four letters. An edit is an insertion, deletion, substitution, or swap of neighbours. A prefix of four or more letters
 * matches too. Returns undefined if no name is that close.
 */
export const nearest = (given: string, known: readonly string[]): string | undefined => {
  if (given.length === 0 || given.length > 64) return undefined
  const folded = fold(given)
  let best: string | undefined
  let least = Math.max(1, Math.floor(folded.length / 4)) + 1
  for (const name of known.slice(0, 500)) {
    const other = fold(name)
    const shortened = folded.length >= 4 && other.startsWith(folded)
    if (!shortened && Math.abs(other.length - folded.length) >= least) continue
    const steps = other === folded ? 0 : shortened ? 1 : edits(folded, other)
    // Ignores a name if half or more of its letters differ. Otherwise short names would match almost any input.
    if (steps < least && steps < name.length / 2) [best, least] = [name, steps]
  }
  return best
}

/** Removes differences that do not count as a misspelling: case, hyphens and underscores. */
const fold = (name: string) => name.toLowerCase().replace(/[-_]/g, '')

const edits = (a: string, b: string): number => {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) next[j] = Math.min(next[j]!, before[j - 2]! + 1)
    }
    ;[before, row] = [row, next]
  }
  return row[b.length]!
}
