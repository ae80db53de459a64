import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { scaled } from '../pace.ts'
import { measure, paceOf, reference, round } from './measure.ts'

const run = readFileSync(new URL('../../../../.ci/run', import.meta.url), 'utf8')

test('gives the reference machine pace 1, and a machine that is four times slower 0.25', () => {
  const slower = (by: number) => round(paceOf({ cpu: reference.cpu / by, commits: reference.commits / by }))
  expect([slower(1), slower(1.3), slower(2), slower(4), slower(1000)]).toEqual([1, 1, 0.5, 0.25, 0.01])
  // A machine with a slow CPU has a low pace, even if its commits are fast. A machine faster than the reference still has pace 1.
  expect(round(paceOf({ cpu: reference.cpu / 4, commits: reference.commits }))).toBe(0.33)
  expect(slower(0.5)).toBe(1)
})

test('measures at least one CPU round and one commit per second on this machine', async () => {
  const { cpu, commits } = await measure(`${process.env.BURSAR_TEST_SERVER ?? 'postgres://postgres@127.0.0.1:5432'}/postgres`, 100)
  expect([cpu > 1, commits > 1]).toEqual([true, true])
})

test('shrinks counts with the pace, to multiples of their step and never below their minimum', () => {
  expect([scaled(1, 40, 10), scaled(0.5, 40, 10), scaled(0.25, 40, 10), scaled(0.01, 40, 10)]).toEqual([40, 20, 10, 10])
  expect([scaled(0.55, 300, 60, 10), scaled(0.1, 300, 60, 10)]).toEqual([170, 60])
})

test('keeps the sum of all step limits in .ci/run below 85 minutes', () => {
  const daily = run.replace(/^if \[ -n "\$full" \]; then\n(.*?)^else\n/gms, '')
  const limits = [...daily.matchAll(/^ *(?:step [\w-]+|allow) (\d+)/gm)].map(([, seconds]) => Number(seconds))
  expect(limits.length).toBeGreaterThanOrEqual(9)
  expect(limits.reduce((sum, one) => sum + one, 0)).toBeLessThan(85 * 60)
  expect(limits.every((one) => one >= 120)).toBe(true)
})
