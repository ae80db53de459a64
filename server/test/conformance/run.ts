import { createHmac } from 'node:crypto'
import { contractKinds, operations } from '@bursar/contract'
import { webhooks as currentWebhooks } from 'polar-sdk/2026-04'
import { validateEvent } from 'polar-sdk-strict/webhooks'
import { countRequirements } from '../../../scripts/requirements.ts'
import { randomText } from '../../src/kernel/secrets.ts'
import { beginRun, endRun } from '../harness/runs.ts'
import { findOperation, openWorld, type World } from '../harness/world.ts'
import * as official from './clients.ts'
import { keyOf, promised } from './promise.ts'
import { openReference } from './reference.ts'
import { catalog } from './stories/catalog.ts'
import { customers } from './stories/customers.ts'
import { delivery } from './stories/delivery.ts'
import { entitlements } from './stories/entitlements.ts'
import { ingestion } from './stories/ingestion.ts'
import { insights } from './stories/insights.ts'
import { links } from './stories/links.ts'
import { meters } from './stories/meters.ts'
import { money } from './stories/money.ts'
import { oauth } from './stories/oauth.ts'
import { organizations } from './stories/organizations.ts'
import { payers } from './stories/payers.ts'
import { subscriptions } from './stories/subscriptions.ts'
import { usage } from './stories/usage.ts'
import { webhooks as webhookStory } from './stories/webhooks.ts'
import { openWitness, type Seen } from './witness.ts'

export interface Stage {
  readonly world: World
  readonly clients: {
    readonly current: (token: string) => ReturnType<typeof official.current>
    readonly strict: (token: string) => ReturnType<typeof official.strict>
  }
  /** Address of the recording proxy, for requests that neither client can send. */
  readonly address: string
}
/** Tests one area of the API with both official clients. Calls every operation of the area successfully at least once. */
export type Story = (stage: Stage) => Promise<void>

const stories: Record<string, Story> = {
  organizations,
  oauth,
  catalog,
  customers,
  usage,
  ingestion,
  webhooks: webhookStory,
  meters,
  money,
  links,
  payers,
  subscriptions,
  entitlements,
  delivery,
  insights,
}

await beginRun(`conformance${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
const world = await openWorld({ worker: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
const seen: Seen[] = []
const witness = {
  current: await openWitness('current', world.port, (one) => seen.push(one)),
  strict: await openWitness('strict', world.port, (one) => seen.push(one)),
}
const stage: Stage = {
  world,
  clients: { current: (token) => official.current(witness.current.url, token), strict: (token) => official.strict(witness.strict.url, token) },
  address: witness.current.url,
}
const problems: string[] = []

// `pnpm conformance entitlements` runs one area during development. The run then fails, because other areas are not covered.
const chosen = process.argv.slice(2)
for (const [name, story] of Object.entries(stories)) {
  if (chosen.length > 0 && !chosen.includes(name)) continue
  try {
    await story(stage)
    console.log(`ok   ${name}`)
  } catch (error) {
    problems.push(`the story of ${name} breaks off: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
}

// Checks every recorded answer against the contract file.
const reference = openReference()
if (!reference) console.log('skipped: the contract file is not beside this clone, so answers are held only against the clients and our own contract')
for (const one of seen) {
  const operation = findOperation(one.method, one.path)
  if (!operation || !reference || !one.type.includes('json')) continue
  for (const problem of reference.answer(
    keyOf(operation.method, operation.path),
    one.status === 201 ? (operation.alsoDeclares ?? 201) : one.status,
    JSON.parse(one.text),
  ))
    problems.push(`${operation.id} ${one.status}: ${problem}`)
}

// Checks that each client has called every promised and implemented operation successfully.
const wanted = promised()
const implemented = operations.filter((operation) => wanted.has(keyOf(operation.method, operation.path)))
for (const operation of implemented) {
  const key = keyOf(operation.method, operation.path)
  const succeeded = (client?: string) =>
    seen.some((one) => (client === undefined || one.client === client) && one.status < 300 && findOperation(one.method, one.path) === operation)
  for (const client of ['current', 'strict'] as const) {
    const reason = official.uncallable[client][key]
    if (succeeded(client)) continue
    // Operations that a client cannot call are called by plain HTTP.
    if (reason && succeeded()) console.log(`note ${operation.id}: ${official.clients[client]} ${reason}`)
    else problems.push(`${operation.id}: no successful call by ${official.clients[client]}`)
  }
}

// Checks that both clients and the contract accept the payload of every emitted event of a type that they know. Types that
// only Bursar has are sent to endpoints that name them, and are tested in the area of webhooks.
const secret = 'conformance'
const verified = new Set<string>()
const { rows } = await world.database.owner((owner) =>
  owner.query<{ kind: string; payload: { type: string; data: unknown } }>('select kind, payload from events where kind = any($1)', [contractKinds]),
)
for (const { kind, payload } of rows) {
  const body = JSON.stringify(payload)
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signature = createHmac('sha256', secret).update(`evt.${timestamp}.${body}`).digest('base64')
  const headers = { 'webhook-id': 'evt', 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
  const found: string[] = reference?.webhook(kind, payload) ?? []
  await currentWebhooks.validateEvent(body, headers, secret).catch((error: unknown) => found.push(`${official.clients.current}: ${String(error)}`))
  try {
    if (!official.isBeyond(payload)) validateEvent(body, headers, secret)
  } catch (error) {
    found.push(`${official.clients.strict}: ${String(error)}`)
  }
  if (found.length === 0) verified.add(kind)
  problems.push(...found.map((problem) => `webhook ${kind}: ${problem}`))
}
for (const kind of contractKinds) if (!verified.has(kind)) problems.push(`webhook ${kind}: no event of this kind was emitted`)

witness.current.close()
witness.strict.close()
await world.close()
const { figures, problems: leaked } = await endRun()
problems.push(...leaked)

for (const problem of new Set(problems)) console.log(`FAIL ${problem}`)
console.log(`${seen.length} answers checked · ${figures}`)
const requirements = countRequirements()
console.log(
  `operations: ${implemented.length}/${wanted.size} · webhooks: ${verified.size}/${contractKinds.length} · requirements: ${requirements.tested}/${requirements.total}`,
)
process.exitCode = problems.length > 0 ? 1 : 0
