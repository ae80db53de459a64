import { styleText } from 'node:util'
import { systemClock, type Clock } from '../platform/clock.ts'
import { clearStatus, openStatus } from './bar.ts'
import { Wrong, type Visit, checks } from './doctor-checks.ts'

export interface Finding {
  readonly name: string
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly says: string
  readonly repair?: string
}

/** Runs all checks in order and changes nothing. A check is skipped if one that it depends on failed. */
export const examine = async (
  variables: NodeJS.ProcessEnv,
  clock: Clock = systemClock,
  { begins = () => {}, found = () => {} }: { begins?: (name: string) => void; found?: (finding: Finding) => void } = {},
): Promise<Finding[]> => {
  const visit = { variables, clock } as Visit
  const findings: Finding[] = []
  const add = (finding: Finding) => {
    findings.push(finding)
    found(finding)
  }
  const failed = new Set<string>()
  try {
    for (const { name, needs, only, look, repair } of checks) {
      if (needs.some((need) => failed.has(need))) {
        failed.add(name)
        add({ name, state: 'skipped', says: `skipped: ${needs.find((need) => failed.has(need))} must pass first` })
        continue
      }
      if (only !== undefined && visit.config.environment !== only) continue
      begins(name)
      try {
        add({ name, state: 'ok', says: await look(visit) })
      } catch (error) {
        failed.add(name)
        const says = error instanceof Error ? error.message.replace(/\s+/g, ' ').trim() || error.constructor.name : String(error)
        add({ name, state: 'failed', says, repair: (error instanceof Wrong ? error.repair : undefined) ?? repair })
      }
    }
  } finally {
    await (visit as Partial<Visit>).postgres?.close()
  }
  return findings
}

const marks = { ok: ['green', 'ok     '], failed: ['red', 'FAILED '], skipped: ['yellow', 'skipped'] } as const

const lineOf = ({ name, state, says, repair }: Finding): string => {
  const [color, mark] = marks[state]
  return `${styleText(color, mark)} ${name.padEnd(13)} ${says}${repair === undefined ? '' : `\n        repair:       ${repair}`}`
}

/** Runs all checks, and prints the result of each as soon as it is known. */
export const doctor = async (values: { json?: boolean | undefined }): Promise<void> => {
  const status = openStatus('checking')
  const findings = await examine(process.env, systemClock, {
    begins: (name) => status.say(`checking ${name}`),
    found: (finding) => {
      if (values.json) return
      clearStatus()
      process.stdout.write(`${lineOf(finding)}\n`)
    },
  }).finally(() => status.end())
  const failed = findings.filter(({ state }) => state === 'failed')
  const end = failed.length === 0 ? `all ${findings.length} checks passed` : `${failed.length} of ${findings.length} checks failed`
  process.stdout.write(values.json ? `${JSON.stringify({ ok: failed.length === 0, checks: findings })}\n` : `\n${end}\n`)
  if (failed.length > 0) process.exitCode = 1
}
