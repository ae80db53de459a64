import { systemClock, type Clock } from '../platform/clock.ts'
import { Wrong, type Visit, checks } from './doctor-checks.ts'

export interface Finding {
  readonly name: string
  readonly state: 'ok' | 'failed' | 'skipped'
  readonly says: string
  readonly repair?: string
}

/** Runs all checks in order and changes nothing. A check is skipped if one that it depends on failed. */
export const examine = async (variables: NodeJS.ProcessEnv, clock: Clock = systemClock): Promise<Finding[]> => {
  const visit = { variables, clock } as Visit
  const findings: Finding[] = []
  const failed = new Set<string>()
  try {
    for (const { name, needs, only, look, repair } of checks) {
      if (needs.some((need) => failed.has(need))) {
        failed.add(name)
        findings.push({ name, state: 'skipped', says: `skipped: ${needs.find((need) => failed.has(need))} must pass first` })
        continue
      }
      if (only !== undefined && visit.config.environment !== only) continue
      try {
        findings.push({ name, state: 'ok', says: await look(visit) })
      } catch (error) {
        failed.add(name)
        const says = error instanceof Error ? error.message.replace(/\s+/g, ' ').trim() || error.constructor.name : String(error)
        findings.push({ name, state: 'failed', says, repair: (error instanceof Wrong ? error.repair : undefined) ?? repair })
      }
    }
  } finally {
    await (visit as Partial<Visit>).postgres?.close()
  }
  return findings
}

export const doctor = async (values: { json?: boolean | undefined }): Promise<void> => {
  const findings = await examine(process.env)
  const failed = findings.filter(({ state }) => state === 'failed')
  const mark = { ok: 'ok     ', failed: 'FAILED ', skipped: 'skipped' }
  const lines = findings.map(
    ({ name, state, says, repair }) => `${mark[state]} ${name.padEnd(13)} ${says}${repair === undefined ? '' : `\n        repair:       ${repair}`}`,
  )
  const end = failed.length === 0 ? `all ${findings.length} checks passed` : `${failed.length} of ${findings.length} checks failed`
  process.stdout.write(values.json ? `${JSON.stringify({ ok: failed.length === 0, checks: findings })}\n` : `${[...lines, '', end].join('\n')}\n`)
  if (failed.length > 0) process.exitCode = 1
}
