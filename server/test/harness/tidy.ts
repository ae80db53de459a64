import { writeFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// This module is loaded before a program whose memory is measured. It collects garbage early, and writes each new
// maximum of used memory to a file. An environment variable names the file.
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
  // Another thread releases the buffers that a collection has freed. The next collection waits for that thread.
  if (used() > most) collect()
  held = used()
  most = Math.max(most, held)
  writeFileSync(process.env.TEST_MEMORY_FILE!, String(most))
}, 150).unref()
