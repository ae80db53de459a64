export type Victim = 'api' | 'worker' | 'server' | 'backend'

/** A planned fault: kill a process, or pause a worker while other processes are killed. */
export type Act =
  | { readonly kind: 'kill'; readonly victim: Victim; readonly after: number }
  | { readonly kind: 'stop'; readonly after: number; readonly longer: number; readonly meanwhile: readonly { victim: 'api' | 'worker'; after: number }[] }

/** Returns a pseudorandom number generator. The same seed gives the same numbers. */
export const openDice = (seed: number) => {
  let state = seed >>> 0
  /** Returns a number from 0 up to, but not including, 1. */
  const roll = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    roll,
    /** Returns an integer from 0 up to, but not including, `count`. */
    below: (count: number): number => Math.floor(roll() * count),
    shuffle: <T>(list: readonly T[]): T[] =>
      list
        .map((one) => ({ one, at: roll() }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ one }) => one),
  }
}
export type Dice = ReturnType<typeof openDice>

/**
 * Plans all faults from the seed. PostgreSQL is never killed while a worker is paused. The kill would release the lock
 * that shows that the worker is alive. Other workers would then take its leases before they expire.
 */
export const planActs = (dice: Dice, kills: number): Act[] => {
  const stops = Math.max(Math.floor(kills / 12), Math.min(1, Math.floor(kills / 6)))
  const during = Array.from({ length: stops }, () => 3 + dice.below(3))
  const rest = Math.max(0, kills - during.reduce((sum, count) => sum + count, 0))
  const gap = () => 50 + dice.below(1000)
  const acts: Act[] = [
    ...during.map((count): Act => ({
      kind: 'stop',
      after: gap(),
      longer: 200 + dice.below(1500),
      meanwhile: Array.from({ length: count }, (_, at) => ({ victim: at === 0 || dice.roll() < 0.4 ? ('api' as const) : ('worker' as const), after: gap() })),
    })),
    ...Array.from({ length: rest }, (_, at): Act => ({
      kind: 'kill',
      victim: (['server', 'worker', 'backend', 'worker', 'api'] as const)[at % 5]!,
      after: gap(),
    })),
  ]
  return dice.shuffle(acts)
}
