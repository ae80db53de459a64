import { expect, test } from 'vitest'
import { levelOf, nextThreshold, type AnnouncedLimit } from './thresholds.ts'

const march = new Date('2026-03-01T00:00:00Z')
const april = new Date('2026-04-01T00:00:00Z')
/** Applies used units and limits one after the other. Returns the announced thresholds. */
const announced = (...steps: readonly (readonly [consumed: string, limit: string, period_start?: Date | null])[]) => {
  let before: AnnouncedLimit | undefined
  return steps.map(([consumed, limit, period_start = march]) => {
    const next = nextThreshold(before, { consumed, limit, period_start })
    if (next.isChanged) before = next
    return next.reached
  })
}

test.each([
  ['0', '10', 0],
  ['4.999999999999', '10', 0],
  ['5', '10', 50],
  ['8', '10', 80],
  ['9.999999999999999999', '10', 80],
  ['10', '10', 100],
  ['900719925474099.3', '900719925474099.3', 100],
  ['-5', '10', 0],
] as const)('%s of %s is level %d', (consumed, limit, level) => expect(levelOf(consumed, limit)).toBe(level))

test('announces each threshold once', () => {
  expect(announced(['1', '10'], ['5', '10'], ['7', '10'], ['8', '10'], ['9', '10'], ['10', '10'], ['50', '10'])).toEqual([null, 50, null, 80, null, 100, null])
})

test('announces the highest of several thresholds, and not the lower ones later', () => {
  expect(announced(['10', '10'], ['9', '10'], ['10', '10'])).toEqual([100, null, null])
})

test('announces nothing again if usage falls and rises', () => {
  expect(announced(['8', '10'], ['1', '10'], ['6', '10'], ['9', '10'], ['10', '10'])).toEqual([80, null, null, null, 100])
})

test('a later period begins anew, and an earlier start does not', () => {
  expect(announced(['10', '10'], ['0', '10', april], ['6', '10', april])).toEqual([100, null, 50])
  expect(announced(['10', '10'], ['6', '10', april])).toEqual([100, 50])
  expect(announced(['10', '10', april], ['10', '10', march], ['10', '10', null])).toEqual([100, null, null])
})

test('a higher limit can be reached again, and its used share is not announced', () => {
  expect(announced(['10', '10'], ['10', '12'], ['12', '12'])).toEqual([100, null, 100])
  expect(announced(['10', '10'], ['10', '30'], ['14', '30'], ['15', '30'], ['30', '30'])).toEqual([100, null, null, 50, 100])
})

test('announces that a higher limit is used up at once, and that a lower limit is reached', () => {
  expect(announced(['10', '10'], ['30', '30'])).toEqual([100, 100])
  expect(announced(['5', '10'], ['5', '5'])).toEqual([50, 100])
})
