import { TooManyRequests } from '@bursar/contract'
import { expect, test } from 'vitest'
import { openConcurrencyLimit } from './concurrency.ts'

const open = (more: object = {}) => openConcurrencyLimit({ what: 'tests', at_once: 2, waiting: 3, timeout_ms: 1000, ...more })

/** Starts work that ends when `end` is called. */
const start = (limit: ReturnType<typeof open>, ...keys: string[]) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const state = { isRunning: false }
  const done = limit.run(keys, async () => {
    state.isRunning = true
    await promise
  })
  return { state, done, end: () => (resolve(), done) }
}
const pause = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms))

test('runs two callers of a key at once, lets others wait in sequence, and does not delay other keys', async () => {
  const limit = open()
  const calls = [1, 2, 3, 4].map(() => start(limit, 'a'))
  const other = start(limit, 'b')
  await pause()
  expect(calls.map(({ state }) => state.isRunning)).toEqual([true, true, false, false])
  expect(other.state.isRunning).toBe(true)
  await calls[0]!.end()
  await pause()
  expect(calls.map(({ state }) => state.isRunning)).toEqual([true, true, true, false])
  await Promise.all([...calls, other].map((call) => call.end()))
})

test('rejects a caller if too many wait, and one that waits too long', async () => {
  const limit = open({ waiting: 1, timeout_ms: 20 })
  const running = [start(limit, 'a'), start(limit, 'a')]
  const late = start(limit, 'a')
  await expect(limit.run(['a'], async () => undefined)).rejects.toThrow(TooManyRequests)
  await expect(late.done).rejects.toThrow(/At most 2 tests/)
  await Promise.all(running.map((call) => call.end()))
  expect(await limit.run(['a'], async () => 'free')).toBe('free')
})

test('frees the places after a failure, also those of several keys', async () => {
  const limit = open({ at_once: 1 })
  for (const keys of [
    ['a', 'b'],
    ['b', 'a', 'a'],
  ])
    await expect(limit.run(keys, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
  expect(await limit.run(['b', 'a'], async () => 'free')).toBe('free')
})
