import type { AddressInfo } from 'node:net'
import { connect, type Client } from '@bursar/contract/client'
import { openPayments } from '../../src/gateways/payments/open.ts'
import type { Payments, Processor } from '../../src/gateways/payments/payments.ts'
import type { TaxService } from '../../src/gateways/tax/tax.ts'
import { dueWork, jobs, openApi, type Replaced } from '../../src/main/wire.ts'
import { askingTaxService } from '../../src/modules/billing/index.ts'
import type { Deps } from '../../src/modules/handlers.ts'
import { groups, sweeps, type GroupName, type SweepName } from '../../src/platform/jobs/catalogue.ts'
import { claim, groupLeases, LeaseLost } from '../../src/platform/jobs/leases.sql.ts'
import { openPostgres, type Transact } from '../../src/platform/postgres/postgres.ts'
import { exchange, type World } from './world.ts'

/** Thrown where the simulated process ends. */
export class Died extends Error {}

/** Where a simulated process ends: the number of an effect, and whether the process ends before or after that effect. */
export interface End {
  readonly point: number
  readonly side: 'before' | 'after'
}

/**
 * Simulates a process that is killed at a chosen effect. Effects are commits, calls to the processor, and acknowledgements
 * of jobs. After that point every further effect of the process throws. Earlier effects remain.
 */
export const openLife = (end: End | null) => {
  const effects: string[] = []
  let begun = false
  let dead = false
  const die = (): never => {
    dead = true
    throw new Died(effects.at(-1))
  }
  const pass = async <T>(name: string, effect: () => Promise<T>): Promise<T> => {
    if (dead) throw new Died()
    if (!begun) return effect()
    effects.push(name)
    const mine = end?.point === effects.length
    if (mine && end?.side === 'before') die()
    // The process also ends at an effect that fails, because a failed call may already have changed something.
    const done = await effect().catch((error: unknown) => {
      if (mine) die()
      throw error
    })
    if (mine) die()
    if (dead) throw new Died()
    return done
  }
  const around =
    (transact: Transact): Transact =>
    async (work) => {
      if (dead) throw new Died()
      if (!begun) return transact(work)
      let mine = false
      const done = await transact(async (tx) => {
        const made = await work(tx)
        if (dead) throw new Died()
        effects.push('commit')
        mine = end?.point === effects.length
        // If the process ends before the commit, the transaction is rolled back.
        if (mine && end?.side === 'before') die()
        return made
      })
      if (mine) die()
      return done
    }
  const watched = (payments: Payments): Payments => ({
    ...payments,
    of: (account) => {
      const processor = payments.of(account)
      return new Proxy(processor, {
        get: (target, name: keyof Processor) => {
          const method = target[name] as ((...args: unknown[]) => unknown) | undefined
          // `readEvent` only verifies a signature locally, so it does not count as an effect. `method` is undefined for
          // `then`, which `await` looks up.
          if (method === undefined || name === 'readEvent') return method?.bind(target)
          return (...args: unknown[]) => pass(`processor.${name}`, async () => method.apply(target, args))
        },
      })
    },
    close: async () => undefined,
  })
  /** Counts reports to the tax service as effects. Quotes have no effect. */
  const watchedTax = (service: TaxService): TaxService => ({
    quote: (question) => service.quote(question),
    confirm: (sale) => pass('tax.confirm', () => service.confirm(sale)),
    reverse: (reversal) => pass('tax.reverse', () => service.reverse(reversal)),
  })
  return {
    effects,
    pass,
    around,
    watched,
    watchedTax,
    isDead: () => dead,
    /** Starts counting effects. Call it after startup, whose effects do not count. */
    begin: () => void (begun = true),
  }
}
export type Life = ReturnType<typeof openLife>

/** Runs a deployment inside this process. The API has its own port. The worker runs jobs and sweeps one at a time. */
export const openDeployment = async (world: World, life: Life, replaced: Pick<Replaced, 'communities' | 'storage'> = {}) => {
  const payments = openPayments(world.config, world.base)
  const api = await openApi(world.base, { ...replaced, payments: life.watched(payments), around: life.around })
  await api.server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = api.server.server.address() as AddressInfo
  const worker = openPostgres(world.config.database_url, 'bursar_worker', {
    max: 8,
    timeout_ms: world.config.database_timeout_ms,
    clock: world.clock,
    log: world.base.log,
  })
  life.begin()
  const deps: Deps = {
    db: worker.db,
    transact: askingTaxService(life.around(worker.transact), api.gateways.tax, world.base.log),
    gateways: { ...api.gateways, tax: api.gateways.tax && life.watchedTax(api.gateways.tax) },
    platform: api.platform,
  }
  const client = (token?: string, extra: Record<string, string> = {}): Client =>
    connect((request) => exchange(port, request.method, request.url, request.headers, request.body), {
      ...(token ? { authorization: `Bearer ${token}` } : {}),
      ...extra,
    })

  /** Runs every waiting job except mail, and deletes each job from the queue when it is done. */
  const work = async (): Promise<void> => {
    for (;;) {
      const next = await world.database.owner(async (owner) => {
        const { rows } = await owner.query<{ id: string; name: string; payload: never }>(
          // Locks the job like a worker. A change during its run then enqueues another job.
          `update graphile_worker._private_jobs j set locked_at = now(), locked_by = 'test' from graphile_worker._private_tasks t where t.id = j.task_id and j.id = (
             select j.id from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
             where t.identifier not like 'mail.%' order by j.id limit 1) returning j.id, t.identifier as name, j.payload`,
        )
        return rows[0]
      })
      if (!next) return
      await jobs.find(({ name }) => name === next.name)!.run(deps, next.payload)
      await life.pass('acknowledge', () => world.database.owner((owner) => owner.query('delete from graphile_worker._private_jobs where id = $1', [next.id])))
    }
  }
  /** Leases and processes all due rows of every sweep, or only of the given sweeps. */
  const sweep = async (...only: SweepName[]): Promise<void> => {
    for (const { name, run, group } of dueWork) {
      if (only.length > 0 && !only.includes(name)) continue
      const until = world.clock.wall().getTime() + sweeps[name].lease_ms
      const leases = await claim(deps.transact, sweeps[name].table, { holder: 'test', limit: 1000, lease_ms: sweeps[name].lease_ms })
      const check = (error: unknown) => {
        // The lease expired while earlier rows were processed. The next sweep claims the row again.
        if (!(error instanceof LeaseLost) || world.clock.wall().getTime() < until) throw error
      }
      if (group)
        for (const own of groupLeases(leases, groups[name as GroupName].size)) {
          const rows = await Promise.allSettled(group(deps, own))
          for (const row of rows) if (row.status === 'rejected') check(row.reason)
        }
      else for (const lease of leases) await run(deps, lease).catch(check)
    }
  }
  return {
    port,
    client,
    work,
    sweep,
    deps,
    close: async () => {
      await api.close()
      await payments.close()
      await worker.close()
    },
  }
}
