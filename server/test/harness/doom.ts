import type { AddressInfo } from 'node:net'
import { connect, type Client } from '@bursar/contract/client'
import { openPayments } from '../../src/gateways/payments/open.ts'
import type { Payments, Processor } from '../../src/gateways/payments/payments.ts'
import { dueWork, jobs, openApi, type Replaced } from '../../src/main/wire.ts'
import type { Means } from '../../src/modules/handlers.ts'
import { sweeps, type SweepName } from '../../src/platform/jobs/catalogue.ts'
import { claim, LeaseLost } from '../../src/platform/jobs/leases.sql.ts'
import { openPostgres, type Transact } from '../../src/platform/postgres/postgres.ts'
import { exchange, type World } from './world.ts'

/** The process ended here. */
export class Died extends Error {}

/** Where a life ends: at which effect, and whether it still happens. */
export interface End {
  readonly point: number
  readonly side: 'before' | 'after'
}

/**
 * A life that ends at a chosen effect: a commit, a call to the processor, the acknowledgement of a job. From then on
 * nothing that it does has any effect, as when a process is killed; what was done before stays done.
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
    // Also where the effect itself ends in an error: what it did, it did.
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
        // Before the commit: everything in the transaction is undone.
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
          // Reading a signature asks nobody; and whoever awaits the processor looks for a `then`.
          if (method === undefined || name === 'readEvent') return method?.bind(target)
          return (...args: unknown[]) => pass(`processor.${name}`, async () => method.apply(target, args))
        },
      })
    },
    close: async () => undefined,
  })
  return {
    effects,
    pass,
    around,
    watched,
    isDead: () => dead,
    /** From here on effects count: starting up is over. */
    begin: () => void (begun = true),
  }
}
export type Life = ReturnType<typeof openLife>

/** A deployment's processes within this one: the API on a port of its own, and whoever does what was promised for later, one thing at a time. */
export const openDeployment = async (world: World, life: Life, replaced: Pick<Replaced, 'communities' | 'storage'> = {}) => {
  const payments = openPayments(world.config, world.base)
  const api = await openApi(world.base, { ...replaced, payments: life.watched(payments), around: life.around })
  await api.server.listen({ host: '127.0.0.1', port: 0 })
  const { port } = api.server.server.address() as AddressInfo
  const worker = openPostgres(world.config.database_url, 'bursar_worker', {
    max: 8,
    patience_ms: world.config.database_patience_ms,
    clock: world.clock,
    log: world.base.log,
  })
  life.begin()
  const means: Means = {
    db: worker.db,
    transact: life.around(worker.transact),
    gateways: { ...api.gateways },
    platform: api.platform,
  }
  const client = (token?: string, extra: Record<string, string> = {}): Client =>
    connect((request) => exchange(port, request.method, request.url, request.headers, request.body), {
      ...(token ? { authorization: `Bearer ${token}` } : {}),
      ...extra,
    })

  /** Does every job that waits, and acknowledges each when it is done; mail is left alone. */
  const work = async (): Promise<void> => {
    for (;;) {
      const next = await world.database.owner(async (owner) => {
        const { rows } = await owner.query<{ id: string; name: string; payload: never }>(
          `select j.id, t.identifier as name, j.payload from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
           where t.identifier not like 'mail.%' order by j.id limit 1`,
        )
        return rows[0]
      })
      if (!next) return
      await jobs.find(({ name }) => name === next.name)!.run(means, next.payload)
      await life.pass('acknowledge', () => world.database.owner((owner) => owner.query('delete from graphile_worker._private_jobs where id = $1', [next.id])))
    }
  }
  /** Looks after everything that is due by now, or after these kinds of it. */
  const sweep = async (...only: SweepName[]): Promise<void> => {
    for (const { name, run } of dueWork) {
      if (only.length > 0 && !only.includes(name)) continue
      const until = world.clock.wall().getTime() + sweeps[name].lease_ms
      const leases = await claim(means.transact, sweeps[name].table, { holder: 'test', limit: 1000, lease_ms: sweeps[name].lease_ms })
      for (const lease of leases)
        await run(means, lease).catch((error: unknown) => {
          // One that waited for its turn for too long is taken again with the next sweep.
          if (!(error instanceof LeaseLost) || world.clock.wall().getTime() < until) throw error
        })
    }
  }
  return {
    client,
    work,
    sweep,
    means,
    close: async () => {
      await api.close()
      await payments.close()
      await worker.close()
    },
  }
}
