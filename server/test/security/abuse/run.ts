import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { rateLimits } from '@bursar/contract'
import { randomText } from '../../../src/kernel/secrets.ts'
import { paced } from '../../harness/pace.ts'
import { launch, portOf } from '../../harness/process.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { openSink } from '../../harness/sink.ts'
import { openWorld } from '../../harness/world.ts'
import { attacks, type Tally } from './attacks.ts'
import { chores, openBystander, p95, type Chore, type Delays } from './bystander.ts'
import { openAddress, send } from './requests.ts'

/**
 * Runs an attacker at the rate that the limits allow, beside a bystander of another organization. For each class of
 * abuse, the 95th percentile of the bystander's delays may be at most three times the idle one, and at least 250 ms.
 * `--only mail` runs one class, and `--long` attacks for a minute each.
 */
const { values: given } = parseArgs({ options: { long: { type: 'boolean' }, only: { type: 'string' }, tries: { type: 'string', default: '3' } } })
const seconds = given.long ? 60 : paced(8, 8)
const idleSeconds = given.long ? 20 : paced(6, 6)
const scale = {
  everyLimit: given.long === true,
  share: paced(100, 25) / 100,
  buyers: given.long ? 10_000 : paced(1500, 500, 100),
  sockets: given.long ? 1000 : paced(200, 100, 10),
}
const chosen = Object.keys(attacks).filter((name) => given.only === undefined || name === given.only)
if (chosen.length === 0) throw new Error(`--only takes one of ${Object.keys(attacks).join(', ')}`)

await beginRun(`abuse${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
const sink = await openSink()
const world = await openWorld({
  settings: {
    BURSAR_EGRESS_LOOPBACK: 'true',
    BURSAR_TRUSTED_PROXIES: '127.0.0.1',
    BURSAR_LOG_LEVEL: 'warn',
    // The limits and timeouts of a production server instead of those of the tests.
    BURSAR_BUDGETS: JSON.stringify(
      Object.fromEntries(Object.entries(rateLimits).map(([name, { production }]) => [name, production.map((one) => [one.limit, one.seconds])])),
    ),
    BURSAR_DATABASE_CONNECTIONS: '4',
    BURSAR_DATABASE_TIMEOUT_MS: '5000',
    BURSAR_REDIS_TIMEOUT_MS: '250',
  },
})
const info = { ...world.environmentVariables, BURSAR_LOG_LEVEL: 'info', BURSAR_DATABASE_CONNECTIONS: '20' }
const programs = [launch(['serve', '--roles', 'api'], info), launch(['serve', '--roles', 'worker'], info)]
// A run that fails or is interrupted leaves no server behind.
process.once('exit', () => programs.forEach(({ child }) => child.kill('SIGKILL')))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
const port = portOf(await programs[0]!.line('listening'))
await programs[1]!.line('worker_started')
const probe = openAddress(port)
const bystander = await openBystander(world, sink, openAddress(port))
// The first requests of a process are slow, because its code is not compiled yet.
await bystander.watch(2)

/** Deletes the work that an attack has left in the queues, and waits until the workers are idle. */
const settle = async (organization_id: string | undefined): Promise<void> => {
  const left = () =>
    world.database.owner(async (owner) => {
      if (organization_id !== undefined) {
        await owner.query(`delete from graphile_worker._private_jobs where locked_at is null and payload ->> 'organization_id' = $1`, [organization_id])
        await owner.query(`update webhook_endpoints set deleted_at = now() where organization_id = $1 and deleted_at is null`, [organization_id])
        await owner.query(
          `update webhook_deliveries set status = 'skipped', due_at = null where organization_id = $1 and status = 'waiting' and lease_until is null`,
          [organization_id],
        )
      }
      const { rows } = await owner.query<{ count: string }>(`select count(*) from graphile_worker._private_jobs where run_at <= now() and attempts < 3`)
      return Number(rows[0]!.count)
    })
  for (let quiet = 0, rounds = 0; quiet < 2 && rounds < 100; rounds++) {
    quiet = (await left()) === 0 ? quiet + 1 : 0
    await pause(100)
  }
}

/** Waits until the server answers at once again, so that one attack does not count against the next class. */
const recover = async (): Promise<void> => {
  for (let rounds = 0; rounds < 300; rounds++) {
    const begun = performance.now()
    await send(probe, { method: 'GET', path: '/healthz', headers: {} }).catch(() => undefined)
    if (performance.now() - begun < 50) return
    await pause(100)
  }
}

const bound = (idle: Delays, chore: Chore) => Math.max(3 * p95(idle[chore]), 250)
const shown = (milliseconds: number) => String(Math.round(milliseconds))

let idle = await bystander.watch(idleSeconds)
const over: string[] = []
for (const name of chosen) {
  for (let attempt = 1; ; attempt++) {
    if (attempt > 1) idle = await bystander.watch(idleSeconds)
    const tally: Tally = { ok: 0, open: 0, limited: 0, refused: 0, failed: 0 }
    const attack = await attacks[name]!({ world, sink, seconds, ...scale }, openAddress(port), tally)
    await settle(undefined)
    const end = new AbortController()
    const striking = attack.strike(end.signal)
    const during = await bystander.watch(seconds)
    end.abort()
    await striking
    attack.stop()
    // The requests that were still open fail now, and are counted.
    await pause(50)
    await recover()
    await settle(attack.organization_id)
    const late = chores.filter((chore) => p95(during[chore]) > bound(idle, chore))
    const figures = chores.map((chore) => `${chore} ${shown(p95(idle[chore]))} → ${shown(p95(during[chore]))} of ${shown(bound(idle, chore))} ms`)
    const answers = `${tally.ok} ok, ${tally.open} open, ${tally.limited} limited, ${tally.refused} refused, ${tally.failed} failed`
    // An attack that never succeeds costs nothing, so it proves nothing.
    const verdict = tally.ok + tally.open === 0 ? 'NO ATTACK' : late.length === 0 ? 'ok' : `OVER (${late.join(', ')})`
    console.log(
      `${name.padEnd(12)} ${attack.uses} · attacker ${answers} · bystander p95 ${figures.join(' · ')} · ${verdict}${attempt > 1 ? ` at attempt ${attempt}` : ''}`,
    )
    const refusals = bystander.refusals()
    if (refusals.length > 0) console.log(`  the bystander was refused ${refusals.length} times: ${[...new Set(refusals)].join(', ')}`)
    if (verdict === 'ok') break
    if (attempt < Number(given.tries)) continue
    over.push(name)
    break
  }
}

for (const program of programs) {
  program.signal('SIGTERM')
  await program.exited
}
await world.close()
sink.close()
const { figures, problems } = await endRun()
console.log(figures)
for (const problem of problems) console.log(`FAIL ${problem}`)
console.log(`classes: ${chosen.length} · over: ${over.length}`)
process.exitCode = over.length + problems.length > 0 ? 1 : 0
