import { bursar } from '../kernel/command-name.ts'
import {
  exportMemberIdMap,
  exportMemberMigration,
  getMemberMigration,
  getMemberReadiness,
  dryRunMemberMigration,
  sealMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  type MemberMigration,
} from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import type { z } from 'zod'
import { openBar } from './bar.ts'
import { apiOf, tokenOf, type Door } from './door.ts'
import { saveFile } from './export.ts'
import { connectTo } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  json?: boolean | undefined
  out?: string | undefined
  yes?: boolean | undefined
}

/** A member migration in the wire format of the API. */
type Migration = z.input<typeof MemberMigration>

const meanings: Record<Migration['state'], string> = {
  before: `each seat holder is a separate customer. Next: ${bursar} members rehearse, then prepare.`,
  preparing: 'members are being created; API answers do not change.',
  phase1: `every seat and grant has a member; customer_id is still the seat holder. Next: adapt your integrations, then run ${bursar} members switch.`,
  phase2: 'customer_id is the buyer, and old seat-holder customers answer 404. Can be undone until it is sealed.',
  sealed: 'the migration is complete and cannot be undone.',
}

const say = (line: string) => void process.stdout.write(`${line}\n`)
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/** Runs the member migration from a terminal: all operations of the API, with a progress bar. */
export const members = async ([verb]: readonly string[], values: Values): Promise<void> => {
  await run(connectTo(apiOf(values), tokenOf(values)), verb, values)
}

const run = async (api: Client, verb: string | undefined, values: Values): Promise<void> => {
  switch (verb) {
    case 'status':
      return status(api, values)
    case 'rehearse':
      return values.out === undefined ? runDry(api, values) : saveFile(exportMemberMigration, {}, values, 'lines')
    case 'map':
      return saveFile(exportMemberIdMap, {}, values, 'holders')
    case 'prepare':
      return follow(api, await api.call(startMemberMigration, { body: {} }), values)
    case 'switch':
      needYes(values, 'From then on customer_id is the buyer, and old seat-holder customers answer 404')
      return follow(api, await api.call(switchMemberMigration, { body: {} }), values)
    case 'undo':
      needYes(values, 'This undoes the last step')
      return follow(api, await api.call(undoMemberMigration, { body: {} }), values)
    case 'seal':
      needYes(values, 'Sealing cannot be undone')
      return follow(api, await api.call(sealMemberMigration, { body: {} }), values)
    default:
      throw new Usage('bursar members takes status, rehearse, prepare, switch, undo, seal or map')
  }
}

const needYes = ({ yes }: Values, what: string): void => {
  if (!yes) throw new Usage(`${what}. Confirm with --yes. For a dry run: ${bursar} members rehearse.`)
}

/** Polls until the background job is done. Interrupting this command does not stop the job. */
const follow = async (api: Client, begun: Migration, values: Values): Promise<void> => {
  let now = begun
  const bar = openBar(100)
  while (now.work !== null) {
    if (now.work.total > 0) bar.show(Math.floor((100 * now.work.done) / now.work.total))
    await pause(500)
    now = await api.call(getMemberMigration, {})
  }
  bar.end()
  show(now, values)
}

const show = (migration: Migration, { json }: Values): void => {
  if (json) return say(JSON.stringify(migration))
  const { state, work, unprepared, problems, seal_at } = migration
  say(`${state}: ${meanings[state]}`)
  if (work) say(`in progress: ${work.kind}, ${work.done} of ${work.total}`)
  if (unprepared > 0) say(`without a member: ${unprepared} seats and grants`)
  if (seal_at) say(`sealed automatically at: ${seal_at}`)
  for (const { resource, id, problem, blocks } of problems) say(`${blocks ? 'blocks' : 'note'}  ${resource} ${id}: ${problem}`)
}

const status = async (api: Client, values: Values): Promise<void> => {
  const migration = await api.call(getMemberMigration, {})
  show(migration, values)
  if (values.json || migration.state !== 'phase1') return
  const { ready, items } = await api.call(getMemberReadiness, {})
  say(ready ? 'integrations: all are ready' : 'integrations that are not ready:')
  for (const one of items.filter((item) => !item.ready))
    for (const { says, count } of one.because) say(`  ${one.kind} ${one.name ?? one.id}: ${says} (${count} times)`)
}

const runDry = async (api: Client, { json }: Values): Promise<void> => {
  const plan = await api.call(dryRunMemberMigration, {})
  if (json) return say(JSON.stringify(plan))
  const lines: Record<keyof typeof plan.counts, string> = {
    owners: 'customers get an owner',
    members: 'members are created for seat holders',
    seats: 'seats get a member',
    grants: 'grants get a member',
    license_keys: 'license keys move to a member with their grant',
    downloads: 'downloads move to a member with their grant',
    teams: 'buyers become teams',
    gone: 'customers answer 404 after the switch',
    staying: 'seat holders stay customers, because they have data of their own',
    problems: 'problems',
  }
  for (const [name, text] of Object.entries(lines)) say(`${String(plan.counts[name as keyof typeof plan.counts]).padStart(8)}  ${text}`)
  for (const { resource, id, problem, blocks } of plan.problems.slice(0, 20)) say(`${blocks ? 'blocks' : 'note'}  ${resource} ${id}: ${problem}`)
  say(`Nothing was changed. The complete plan: ${bursar} members rehearse --out plan.csv`)
}
