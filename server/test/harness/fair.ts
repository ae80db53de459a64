import { existsSync, readFileSync } from 'node:fs'

/** Reads CPU ticks of all cores since boot. `worked`: ticks that this machine used. `taken`: ticks that the host stole. */
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
 * Starts a stopwatch that excludes time stolen by the host. Use it for assertions about durations. Without stolen time
 * it shows wall-clock time.
 */
export const fairStopwatch = (): (() => number) => {
  const [since, before] = [performance.now(), ticks()]
  return () => {
    const now = ticks()
    const [worked, taken] = [now.worked - before.worked, now.taken - before.taken]
    const elapsed = performance.now() - since
    if (taken === 0) return elapsed
    // If only one process was running, it lost at most the whole stolen time. If several were running, each lost a
    // share. The larger result is used.
    return Math.max(elapsed - taken * 10, (elapsed * worked) / (worked + taken))
  }
}
