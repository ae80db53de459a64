import { existsSync, readFileSync } from 'node:fs'

/** What all cores have done since the machine began, in ticks: worked for anybody here, or been taken by the host for others. */
const ticks = () => {
  if (!existsSync('/proc/stat')) return { worked: 1, taken: 0 }
  const [user, nice, system, , , irq, softirq, taken] = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!.trim().split(/\s+/).slice(1).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  return { worked: user + nice + system + irq + softirq, taken }
}

/**
 * Milliseconds from now on, as they would be on a machine of one's own: where the host takes a core away, that time is not
 * ours. For promises about how long something takes; with nothing taken, it is the time on the wall.
 */
export const fairStopwatch = (): (() => number) => {
  const [since, before] = [performance.now(), ticks()]
  return () => {
    const now = ticks()
    const [worked, taken] = [now.worked - before.worked, now.taken - before.taken]
    const elapsed = performance.now() - since
    if (taken === 0) return elapsed
    // Whoever waits loses no more than was taken; where several work, each loses its share of it.
    return Math.max(elapsed - taken * 10, (elapsed * worked) / (worked + taken))
  }
}
