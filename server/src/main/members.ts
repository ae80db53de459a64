import {
  exportMemberIdMap,
  exportMemberMigration,
  getMemberMigration,
  getMemberReadiness,
  rehearseMemberMigration,
  sealMemberMigration,
  startMemberMigration,
  switchMemberMigration,
  undoMemberMigration,
  type MemberMigration,
} from '@bursar/contract'
import { Refused, type Client } from '@bursar/contract/client'
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

/** As it comes over the wire. */
type Migration = z.input<typeof MemberMigration>

const meanings: Record<Migration['state'], string> = {
  before: 'seat holders are customers of their own. Next: bursar members rehearse, then prepare.',
  preparing: 'members are being made; nothing that is answered changes.',
  phase1: 'every seat and grant names a member; customer_id is still the seat holder. Next: adapt what reads it, then bursar members switch.',
  phase2: 'customer_id is the buyer, and old seat-holder customers are gone. It can be undone until it is sealed.',
  sealed: 'members are all there is.',
}

const say = (line: string) => void process.stdout.write(`${line}\n`)
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/** The member migration from a terminal: everything that the API offers, with a bar while something is under way. */
export const members = async ([verb]: readonly string[], values: Values): Promise<void> => {
  const api = connectTo(apiOf(values), tokenOf(values))
  try {
    await run(api, verb, values)
  } catch (error) {
    if (error instanceof Refused) throw new Error(`the API refuses with ${error.reply.status}: ${detailOf(error)}`, { cause: error })
    throw error
  }
}

const detailOf = ({ reply }: Refused): string => {
  const { detail } = reply.body
  return Array.isArray(detail) ? (detail as { msg: string }[]).map(({ msg }) => msg).join('; ') : String(detail)
}

const run = async (api: Client, verb: string | undefined, values: Values): Promise<void> => {
  switch (verb) {
    case 'status':
      return status(api, values)
    case 'rehearse':
      return values.out === undefined ? rehearse(api, values) : saveFile(exportMemberMigration, {}, values, 'lines')
    case 'map':
      return saveFile(exportMemberIdMap, {}, values, 'holders')
    case 'prepare':
      return follow(api, await api.call(startMemberMigration, { body: {} }), values)
    case 'switch':
      needYes(values, 'From then on customer_id is the buyer, and old seat-holder customers answer 404')
      return follow(api, await api.call(switchMemberMigration, { body: {} }), values)
    case 'undo':
      needYes(values, 'The last step is taken back')
      return follow(api, await api.call(undoMemberMigration, { body: {} }), values)
    case 'seal':
      needYes(values, 'There is no way back from that')
      return follow(api, await api.call(sealMemberMigration, { body: {} }), values)
    default:
      throw new Usage('bursar members takes status, rehearse, prepare, switch, undo, seal or map')
  }
}

const needYes = ({ yes }: Values, what: string): void => {
  if (!yes) throw new Usage(`${what}. Say --yes if you mean it; bursar members rehearse shows what it does.`)
}

/** Looks on until the work in the background is done. Whoever leaves stops nothing. */
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
  if (work) say(`under way: ${work.kind}, ${work.done} of ${work.total}`)
  if (unprepared > 0) say(`without a member: ${unprepared} seats and grants`)
  if (seal_at) say(`sealed by itself: ${seal_at}`)
  for (const { resource, id, problem, blocks } of problems) say(`${blocks ? 'blocks' : 'note'}  ${resource} ${id}: ${problem}`)
}

const status = async (api: Client, values: Values): Promise<void> => {
  const migration = await api.call(getMemberMigration, {})
  show(migration, values)
  if (values.json || migration.state !== 'phase1') return
  const { ready, items } = await api.call(getMemberReadiness, {})
  say(ready ? 'integrations: all that were seen are ready' : 'integrations that are not ready:')
  for (const one of items.filter((item) => !item.ready))
    for (const { says, count } of one.because) say(`  ${one.kind} ${one.name ?? one.id}: ${says} (${count} times)`)
}

const rehearse = async (api: Client, { json }: Values): Promise<void> => {
  const plan = await api.call(rehearseMemberMigration, {})
  if (json) return say(JSON.stringify(plan))
  const lines: Record<keyof typeof plan.counts, string> = {
    owners: 'customers get an owner',
    members: 'members are made for seat holders',
    seats: 'seats get a member',
    grants: 'grants get a member',
    license_keys: 'license keys go to a member with their grant',
    downloads: 'downloads go with theirs',
    teams: 'buyers become teams',
    gone: 'customers answer 404 after the switch',
    staying: 'seat holders stay customers, because they have something of their own',
    problems: 'problems',
  }
  for (const [name, text] of Object.entries(lines)) say(`${String(plan.counts[name as keyof typeof plan.counts]).padStart(8)}  ${text}`)
  for (const { resource, id, problem, blocks } of plan.problems.slice(0, 20)) say(`${blocks ? 'blocks' : 'note'}  ${resource} ${id}: ${problem}`)
  say('Nothing was changed. The whole plan: bursar members rehearse --out plan.csv')
}
