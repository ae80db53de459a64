/**
 * Preloaded into an API process. Between two signals SIGUSR2, measures the CPU time of the main thread in each turn of the event loop. The
 * second signal logs the longest turn. Wall time would include the time in which other processes had the core.
 */
const used = (): number => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

let count = 0
let isMeasuring = false
let longest = 0

const measureTurns = (): void => {
  let before = used()
  const turn = () => {
    const now = used()
    longest = Math.max(longest, now - before)
    before = now
    if (isMeasuring) setImmediate(turn)
  }
  setImmediate(turn)
}

process.on('SIGUSR2', () => {
  isMeasuring = !isMeasuring
  if (isMeasuring) {
    longest = 0
    measureTurns()
  } else process.stdout.write(`${JSON.stringify({ msg: 'longest_turn', count: ++count, cpu_ms: longest })}\n`)
})
