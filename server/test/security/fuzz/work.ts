import { dueWork, jobs, regularWork } from '../../../src/main/wire.ts'
import type { Deps } from '../../../src/modules/handlers.ts'
import { sweeps, type JobName, type SweepName } from '../../../src/platform/jobs/catalogue.ts'
import { claim } from '../../../src/platform/jobs/leases.sql.ts'
import { openPostgres } from '../../../src/platform/postgres/postgres.ts'
import { noteSecrets } from '../../harness/secrets.ts'
import type { World } from '../../harness/world.ts'

/** Opens a worker that runs only the jobs it is asked for. The others stay in the queue, so that no job disturbs a request. */
export const openWork = (world: World) => {
  const { clock, log } = world.base
  const postgres = openPostgres(world.config.database_url, 'bursar_worker', { max: 2, timeout_ms: world.config.database_timeout_ms, clock, log })
  let text = ''
  const mail: Deps['gateways']['mail'] = {
    ...world.api.gateways.mail,
    send: async (letter) => {
      text = letter.text
      noteSecrets(text)
    },
  }
  const deps: Deps = { db: postgres.db, transact: postgres.transact, gateways: { ...world.api.gateways, mail }, platform: world.platform }

  /** Runs the newest job of this name. */
  const run = async (name: JobName): Promise<void> => {
    const job = await world.database.owner(async (owner) => {
      const { rows } = await owner.query<{ id: string; payload: never }>(
        `delete from graphile_worker._private_jobs where id = (select j.id from graphile_worker._private_jobs j
           join graphile_worker._private_tasks t on t.id = j.task_id where t.identifier = $1 order by j.id desc limit 1) returning payload`,
        [name],
      )
      return rows[0]
    })
    if (!job) throw new Error(`no job ${name} is waiting`)
    await jobs.find((known) => known.name === name)!.run(deps, job.payload)
  }
  return {
    run,
    /** Runs the newest job of this name, and returns the text of the mail that it sends. */
    mailed: async (name: JobName): Promise<string> => {
      text = ''
      await run(name)
      return text
    },
    /** Fetches the waiting events of the payment processors. */
    hear: () => regularWork.find(({ name }) => name === 'billing.hear')!.run(deps),
    /** Leases and processes the due rows of a sweep. With several turns, the clock advances between them. */
    sweep: async (name: SweepName, turns = 1): Promise<void> => {
      const { run: process } = dueWork.find((work) => work.name === name)!
      const { table, lease_ms } = sweeps[name]
      for (let turn = 0; turn < turns; turn++) {
        for (const lease of await claim(deps.transact, table, { holder: 'fuzz', limit: 1000, lease_ms })) await process(deps, lease)
        if (turns > 1) world.clock.advance(2000)
      }
    },
    close: () => postgres.close(),
  }
}
