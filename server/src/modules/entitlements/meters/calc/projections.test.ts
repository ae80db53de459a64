import { expect, test } from 'vitest'
import { projectUnits } from './projections.ts'

const on = (at: string, [start, end] = ['2026-06-01', '2026-07-01'] as [string, string]) => ({
  period_start: new Date(start),
  period_end: new Date(end),
  at: new Date(at),
})

test('projects numbers and sums by the time that has passed', () => {
  expect(projectUnits('count', '100', on('2026-06-11'))).toBe('300')
  expect(projectUnits('sum', '100', on('2026-06-13T12:00:00Z'))).toBe('240')
  expect(projectUnits('sum', '0.5', on('2026-06-08'))).toBe('2.14')
  expect(projectUnits('count', '1', on('2026-06-08'))).toBe('4')
  expect(projectUnits('sum', '0', on('2026-06-08'))).toBe('0')
  // Corrections can make a sum negative. A negative sum does not grow.
  expect(projectUnits('sum', '-5', on('2026-06-08'))).toBe('-5')
})

test('does not project aggregations that do not grow with time', () => {
  for (const func of ['max', 'min', 'avg', 'unique'] as const) expect(projectUnits(func, '100', on('2026-06-11'))).toBe('100')
})

test('projects nothing in the first day, or in the first half of a short period', () => {
  expect(projectUnits('count', '5', on('2026-06-01T23:59:59Z'))).toBe(null)
  expect(projectUnits('count', '5', on('2026-06-02'))).toBe('150')
  const oneDay: [string, string] = ['2026-06-01', '2026-06-02']
  expect(projectUnits('count', '5', on('2026-06-01T11:59:59Z', oneDay))).toBe(null)
  expect(projectUnits('count', '5', on('2026-06-01T12:00:00Z', oneDay))).toBe('10')
  expect(projectUnits('count', '5', on('2026-05-01'))).toBe(null)
})

test('returns the usage itself after the end of the period', () => {
  expect(projectUnits('count', '77', on('2026-07-01'))).toBe('77')
  expect(projectUnits('count', '77', on('2026-07-09'))).toBe('77')
})

test('keeps numbers exact that a double cannot hold', () => {
  expect(projectUnits('sum', '9007199254740993', on('2026-06-16'))).toBe('18014398509481986')
})
