import type { Answer, Attempt } from './wire.ts'

export const kinds = ['≥500', 'undeclared', 'slow', 'oversized', 'changed', 'silent', 'no valid request'] as const
export type Kind = (typeof kinds)[number]

/** Number of findings of one kind that are printed per operation. All are counted. */
const perOperation = 3
const printed = 60
/** Characters of a body that a reproducer shows. */
const shown = 1200

const cut = (text: string, length = shown): string => (text.length > length ? `${text.slice(0, length)}… (${text.length} characters)` : text)
/** Shortens secrets, so that a reproducer can be passed on. */
const masked = (text: string): string => text.replace(/(bursar_\w{4,12}_)\w{20,}/g, '$1…')

export interface Finding {
  readonly kind: Kind
  readonly operation: string
  readonly credential: string
  readonly number: number
  readonly what: string
  readonly attempt: Attempt
  readonly answer: Answer | undefined
}

/** Counts requests, answers and findings, and prints a reproducer for each finding. */
export const openReport = (seed: number) => {
  const counts = new Map<Kind, number>()
  const perPlace = new Map<string, number>()
  const statuses = new Map<number, number>()
  const valid = new Map<string, number>()
  let requests = 0
  let prints = 0
  let slowest = { cpu: 0, operation: '' }
  return {
    count: (operation: string, answer: Answer, accepted: boolean): void => {
      requests++
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      if (accepted) valid.set(operation, (valid.get(operation) ?? 0) + 1)
      if (answer.cpu > slowest.cpu) slowest = { cpu: answer.cpu, operation }
    },
    found: ({ kind, operation, credential, number, what, attempt, answer }: Finding): void => {
      counts.set(kind, (counts.get(kind) ?? 0) + 1)
      const place = `${kind} ${operation}`
      perPlace.set(place, (perPlace.get(place) ?? 0) + 1)
      if (perPlace.get(place)! > perOperation || prints >= printed) return
      prints++
      const headers = Object.entries(attempt.headers).map(([name, value]) => `${name}: ${cut(String(value), 200)}`)
      const lines = [
        `FAIL ${kind}: ${operation}, request ${number} of seed ${seed}: ${what}`,
        `     credential: ${credential} · change: ${attempt.note}`,
        `     ${attempt.method} ${cut(attempt.path, 400)}`,
        ...headers.map((line) => `     ${line}`),
        ...(attempt.body === undefined ? [] : [`     ${cut(attempt.body.toString())}`]),
        ...(answer ? [`     → ${answer.status}, ${answer.bytes} bytes, ${Math.round(answer.cpu)} ms of CPU: ${cut(answer.text)}`] : []),
        `     again: pnpm fuzz --seed ${seed} --only ${operation} --request ${number}`,
      ]
      console.log(masked(lines.join('\n')))
    },
    requests: () => requests,
    validIn: (operation: string) => valid.get(operation) ?? 0,
    operations: () => valid.size,
    total: () => [...counts.values()].reduce((sum, count) => sum + count, 0),
    summary: (operations: number): string => {
      const of = (kind: Kind) => counts.get(kind) ?? 0
      const answers = [...statuses].toSorted(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
      const places = [...perPlace].toSorted(([, a], [, b]) => b - a).map(([place, count]) => `     ${count} × ${place}`)
      return [
        ...(places.length > 0 ? ['findings by operation:', ...places] : []),
        `answers: ${answers.join(' · ')}`,
        `most CPU in one request: ${Math.round(slowest.cpu)} ms, ${slowest.operation}`,
        `oversized refusals: ${of('oversized')} · changed rows: ${of('changed')} · without an answer: ${of('silent')}`,
        `requests: ${requests} · operations: ${valid.size}/${operations} · ≥500: ${of('≥500')} · undeclared: ${of('undeclared')} · slow: ${of('slow')}`,
      ].join('\n')
    },
  }
}
export type Report = ReturnType<typeof openReport>
