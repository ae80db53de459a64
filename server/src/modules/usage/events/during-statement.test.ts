import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { duringStatement } from './during-statement.ts'

test('returns the results of the statement and of the work', async () => {
  expect(await duringStatement(Promise.resolve(1), () => 'two')).toEqual([1, 'two'])
})

const fails = async () => Promise.reject(new Error('failed'))
const slow = () => {
  const state = { ended: false }
  const run = async () => {
    for (let turn = 0; turn < 5; turn++) await setImmediate()
    state.ended = true
  }
  return { state, run }
}

test('waits for the work if the statement fails first', async () => {
  const { state, run } = slow()
  await expect(duringStatement(fails(), run)).rejects.toThrow('failed')
  expect(state.ended).toBe(true)
})

test('waits for the statement if the work fails first', async () => {
  const { state, run } = slow()
  await expect(duringStatement(run(), fails)).rejects.toThrow('failed')
  expect(state.ended).toBe(true)
})
