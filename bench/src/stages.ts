import { launch } from '../../server/test/harness/process.ts'
import type { World } from '../../server/test/harness/world.ts'
import { alternate, compare, sendLoad, median, quotients, startSide } from './measuring.ts'
import { options } from './options.ts'
import type { Outcome } from './results.ts'

export const ratelimit = async (world: World): Promise<Record<string, Outcome>> => {
  const organization = await world.organization()
  return { ratelimit: await compare(world, 'product', 'unbudgeted', `/v1/organizations/${organization.id}`, (await organization.token()).secret.reveal()) }
}

export const audit = async (world: World): Promise<Record<string, Outcome>> => {
  const token = (await (await world.organization()).token()).secret.reveal()
  const body = JSON.stringify({ email: 'buyer-{n}@people.test', name: 'A buyer', external_id: 'b-{n}' })
  const sides = { with: await startSide(world, 'product'), without: await startSide(world, 'unaudited') }
  // A worker assigns sequence numbers and hashes to audit entries on the same machine, as in production.
  const worker = launch(['serve', '--roles', 'worker'], world.environmentVariables)
  const rate = (side: 'with' | 'without') => async () => {
    const [verb, triggers] = [side === 'with' ? 'enable' : 'disable', ['note_changes', 'note_updates']]
    await world.database.owner((owner) =>
      owner.query(['customers', 'members'].flatMap((table) => triggers.map((name) => `alter table ${table} ${verb} trigger ${name};`)).join('')),
    )
    return (await sendLoad(sides[side].port, '/v1/customers/', token, { body })).per_second
  }
  const [logged, silent] = await alternate([rate('with'), rate('without')])
  for (const { child } of Object.values(sides)) child.kill()
  worker.signal('SIGKILL')
  await worker.exited
  return {
    audit: {
      ratio: median(logged) / median(silent),
      ratios: quotients(logged, silent),
      figures: [
        { what: 'with the log', value: median(logged), unit: '/s' },
        { what: 'without', value: median(silent), unit: '/s' },
      ],
      rounds: options.rounds,
    },
  }
}
