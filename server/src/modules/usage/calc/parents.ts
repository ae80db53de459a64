/** Maximum number of ancestors of an event. */
export const deepest = 100

/** The parent of a new event: the index of another new event, a stored event with its depth, or none. */
export type Parent = number | { readonly depth: number } | null

/** The first event that cannot have its parent: it would be its own ancestor, or would have too many ancestors. */
export interface Misplaced {
  readonly at: number
  readonly why: 'cycle' | 'depth'
}

/** Returns the number of ancestors of each new event, or the first event that cannot have its parent. */
export const depthsOf = (parents: readonly Parent[]): number[] | Misplaced => {
  const depths: (number | undefined)[] = parents.map((parent) => (parent === null ? 0 : typeof parent === 'number' ? undefined : parent.depth + 1))
  for (const [start, known] of depths.entries()) {
    if (known !== undefined) continue
    const chain: number[] = []
    const seen = new Set<number>()
    let at = start
    while (depths[at] === undefined) {
      if (seen.has(at)) return { at: start, why: 'cycle' }
      seen.add(at)
      chain.push(at)
      at = parents[at] as number
    }
    for (let depth = depths[at]!; chain.length > 0;) depths[chain.pop()!] = ++depth
  }
  const deep = depths.findIndex((depth) => depth! > deepest)
  return deep === -1 ? (depths as number[]) : { at: deep, why: 'depth' }
}
