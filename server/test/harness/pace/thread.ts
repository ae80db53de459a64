import { parentPort, workerData } from 'node:worker_threads'
import { computeRate } from './measure.ts'

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's port, not a window
parentPort!.postMessage(await computeRate(workerData as number))
