import { writeFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Loaded before a program whose memory is watched: what is no longer held is given back at once, and how much is held is
// written down whenever it is more than it ever was. The file is named by whoever starts the program.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const used = () => {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
const step = 4 * 1024 * 1024
let [held, most] = [0, 0]
setInterval(() => {
  if (used() < held + step) return
  collect()
  held = used()
  most = Math.max(most, held)
  writeFileSync(process.env.TEST_MEMORY_FILE!, String(most))
}, 50).unref()
