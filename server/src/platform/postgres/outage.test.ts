import { expect, test } from 'vitest'
import { openLog } from '../log.ts'
import { isDriverError, isUnavailable, outageOf, untilAvailable, WaitStopped } from './outage.ts'

const failure = (fields: object, message = 'failed') => Object.assign(new Error(message), fields)
const openLines = () => {
  const lines: { msg: string; reason?: string }[] = []
  return { lines, log: openLog('info', { write: (text: string) => void lines.push(JSON.parse(text) as { msg: string; reason?: string }) }) }
}

test.each([
  [failure({ code: 'ECONNREFUSED' }), 'it refuses connections'],
  [failure({ code: 'ENOENT', syscall: 'connect' }), 'it refuses connections'],
  [failure({ code: '57P03', severity: 'FATAL' }), 'it is starting, stopping or recovering'],
  [failure({ code: '53300', severity: 'FATAL' }), 'it has too many connections already'],
  [failure({ code: '53100', severity: 'ERROR' }), 'it is out of memory or disk space'],
  [failure({ code: '08006', severity: 'ERROR' }), 'it closed the connection'],
  [failure({ code: '08P01', severity: 'FATAL' }), 'it closed the connection'],
  [failure({ code: '57014', severity: 'ERROR' }), 'it does not answer in time'],
  [failure({ code: '55P03', severity: 'ERROR' }), 'it does not answer in time'],
  [failure({ code: 'ETIMEDOUT' }), 'it does not answer in time'],
  [failure({ code: 'EHOSTUNREACH' }), 'there is no route to its host'],
  [failure({ code: 'ENETUNREACH' }), 'there is no route to its host'],
  [failure({ code: 'ENOTFOUND' }), 'the name of its host cannot be resolved'],
  [failure({ code: 'EAI_AGAIN' }), 'the name of its host cannot be resolved'],
  [failure({}, 'Connection terminated unexpectedly'), 'it closed the connection'],
  [failure({}, 'timeout exceeded when trying to connect'), 'it does not answer in time'],
  [failure({}, 'timeout expired'), 'it does not answer in time'],
  [failure({}, 'Query read timeout'), 'it does not answer in time'],
])('treats %j as an outage that is answered with 503: %s', (error, reason) => {
  expect(outageOf(error)).toBe(reason)
  expect(isUnavailable(error)).toBe(true)
})

test.each([
  ['a session whose login is rejected', true, failure({ code: '28P01', severity: 'FATAL' })],
  ['a unique violation', false, failure({ code: '23505', severity: 'ERROR' })],
  ['a missing table', false, failure({ code: '42P01', severity: 'ERROR' })],
  ['a message that violates the protocol', false, failure({ code: '08P01', severity: 'ERROR' })],
  ['an error without a code', false, failure({})],
])('%s answers 503: %s', (_, unavailable, error) => {
  expect(isUnavailable(error)).toBe(unavailable)
})

test.each([
  ['a wrong password', failure({ code: '28P01', severity: 'FATAL' })],
  ['a role without permission to connect', failure({ code: '28000', severity: 'FATAL' })],
  ['a missing database', failure({ code: '3D000', severity: 'FATAL' })],
  ['a missing table', failure({ code: '42P01', severity: 'ERROR' })],
  ['a missing file', failure({ code: 'ENOENT', syscall: 'open' })],
])('does not treat %s as an outage, and throws instead of waiting', async (_, error) => {
  const { log, lines } = openLines()
  const waiting = untilAvailable(() => Promise.reject(error), { role: 'bursar_api', log, signal: new AbortController().signal })
  await expect(waiting).rejects.toBe(error)
  expect(lines).toEqual([])
})

test('logs each new reason of an outage once, calls onWait before every wait, and logs the end of the outage', async () => {
  const { log, lines } = openLines()
  const answers = [failure({ code: 'ECONNREFUSED' }), failure({ code: 'ECONNREFUSED' }), failure({ code: '57P03' }), 'served']
  const told: string[] = []
  const work = async () => {
    const answer = answers.shift()
    if (answer instanceof Error) throw answer
    return answer
  }
  expect(await untilAvailable(work, { role: 'bursar_api', log, signal: new AbortController().signal, onWait: (reason) => told.push(reason) })).toBe('served')
  expect(told).toEqual(['it refuses connections', 'it refuses connections', 'it is starting, stopping or recovering'])
  expect(lines.map(({ msg, reason }) => [msg, reason])).toEqual([
    ['database_unavailable', 'it refuses connections'],
    ['database_unavailable', 'it is starting, stopping or recovering'],
    ['database_available', undefined],
  ])
})

test('stops waiting for the database when the signal is aborted', async () => {
  const stop = new AbortController()
  const waiting = untilAvailable(() => Promise.reject(failure({ code: 'ECONNREFUSED' })), {
    role: 'bursar_worker',
    log: openLog('silent'),
    signal: stop.signal,
    onWait: () => stop.abort(),
  })
  await expect(waiting).rejects.toBeInstanceOf(WaitStopped)
})

test('ignores unhandled rejections only if the database driver or the job queue caused them', () => {
  const driver = failure({ code: 'ECONNREFUSED', stack: 'Error\n    at /app/node_modules/pg-pool/index.js:45:11' })
  expect(isDriverError(driver)).toBe(true)
  expect(isDriverError(failure({}, 'This batcher has been released, and so no more calls can be made.'))).toBe(true)
  expect(isDriverError(failure({ code: 'ECONNREFUSED', stack: 'Error\n    at /app/node_modules/nodemailer/index.js:1:1' }))).toBe(false)
  expect(isDriverError(failure({ code: '23505', stack: driver.stack }))).toBe(false)
})
