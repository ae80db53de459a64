export type Victim = 'api' | 'worker' | 'server' | 'backend'

/** One thing that is done to the system: a process is killed, or a worker stands still while others are killed. */
export type Act =
  | { readonly kind: 'kill'; readonly victim: Victim; readonly after: number }
  | { readonly kind: 'stop'; readonly after: number; readonly longer: number; readonly meanwhile: readonly { victim: 'api' | 'worker'; after: number }[] }

/** Numbers that look random, and are the same for the same seed. */
export const openDice = (seed: number) => {
  let state = seed >>> 0
  /** From 0 up to 1. */
  const roll = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  return {
    roll,
    /** A whole number from 0 up to so many. */
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
 * What happens in which order, all of it from the seed. While a worker stands still the database is left alone: its life is
 * a lock there, and it must be its leases that run out.
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
