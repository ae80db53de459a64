import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { organizationRoles, operations, scopes, type OrganizationRole, type Scope } from '@bursar/contract'
import { cookieName, issueOrganizationToken, issuePersonalToken, startSession } from '../../../src/modules/identity/index.ts'
import { newToken, randomText } from '../../../src/kernel/secrets.ts'
import { beginRun, endRun } from '../../harness/runs.ts'
import { noteSecrets } from '../../harness/secrets.ts'
import { checkExchange, openWorld } from '../../harness/world.ts'
import { openGrant } from '../../harness/visitor.ts'
import { openSeeds } from './seeds.ts'
import { absent, bearer } from './targets.ts'
import { costlyPolicy, openCostWatch } from '../costs.ts'
import { policy, type Credential, type Policy, type PortalRole, type Target, type Verdicts } from './policy.ts'

await beginRun(`matrix${randomText(4, 'abcdefghijklmnopqrstuvwxyz')}`)
const world = await openWorld()
const { transact, platform, database } = world
await database.owner((owner) => owner.query('update deployment set organization_creation_open = true'))

const costs = openCostWatch(database)
const problems: string[] = []
const leaks: string[] = []
let cells = 0

// Two tenants with the same kinds of data: `ours` sends the requests. `theirs` has a canary in every text column, to find leaks.
const people = Object.fromEntries(await Promise.all(organizationRoles.map(async (role) => [role, await world.person()] as const))) as Record<
  OrganizationRole,
  Awaited<ReturnType<typeof world.person>>
>
const ours = await world.organization({ owner: people.owner.id })
const stranger = await world.person()
const theirs = await world.organization({ owner: stranger.id })
const { join, kept, furnish, openCrew } = openSeeds(world)
for (const role of organizationRoles) await join(ours.id, people[role].id, role)

const furnished = await furnish(theirs.id, stranger.id, stranger.id)

// Members of a team customer of our tenant call the portal operations. The neighbour is another customer of the same tenant.
const { portalOf, ofCrew } = await openCrew(ours.id)
await database.owner((owner) =>
  owner.query(`update organizations set customer_portal_settings = jsonb_set(customer_portal_settings, '{customer}', '{"allow_email_change": true}')`),
)
/** Texts that a portal member with the role `member` must never see. */
const concealed = ['crew-billing', 'crew-owner', 'crew-manager', 'Crew Owner', 'Crew Manager', 'Concealed Lane', 'DE136695976']
const portalRoles: readonly PortalRole[] = ['customer', 'owner', 'billing_manager', 'member']
const neighbour = await furnish(ours.id, people.owner.id, people.admin.id)
kept.add(neighbour.endpoint_id)

const canaries = await plantCanaries()
// The canaries have replaced the external ids too. Reads the new values, because some requests contain external ids.
const { rows: renamed } = await database.owner((owner) =>
  owner.query<{ customer: string; person: string }>(
    'select c.external_id as customer, m.external_id as person from customers c join members m on m.customer_id = c.id where c.id = $1 and m.id = $2',
    [furnished.customer_id, furnished.person_id],
  ),
)
const other: Target = { ...furnished, customer_external_id: renamed[0]!.customer, person_external_id: renamed[0]!.person }

// Four OAuth apps. The same person has authorized one for our organization only, and one for another organization only.
// The third app was authorized for all organizations by a person who has left ours. The fourth was authorized by a
// person who joined ours after the consent.
const elsewhere = await world.organization({ owner: people.admin.id })
await furnish(elsewhere.id, people.admin.id, people.admin.id)
const leaver = await world.person()
await join(ours.id, leaver.id, 'admin')
const joiner = await world.person()
const here = await openGrant(world, people.admin.id, [ours.id])
const apps = {
  elsewhere: await openGrant(world, people.admin.id, [elsewhere.id]),
  left: await openGrant(world, leaver.id, null),
  later: await openGrant(world, joiner.id, null),
}
await database.owner((owner) => owner.query('delete from organization_members where organization_id = $1 and user_id = $2', [ours.id, leaver.id]))
const laterToken = await apps.later([...scopes])
await join(ours.id, joiner.id, 'admin')

// Credentials of every kind: with each single scope, and with every scope except the right ones.
const secrets = new Map<string, string>()
type TokenKind = 'organization' | 'personal' | 'oauth'
const tokenKinds: readonly TokenKind[] = ['organization', 'personal', 'oauth']
const tokenOf = async (kind: TokenKind, held: readonly Scope[]): Promise<string> => {
  const key = `${kind} ${held.join()}`
  let secret = secrets.get(key)
  if (!secret) {
    const wish = { comment: 'matrix', scopes: held }
    secret = (
      kind === 'oauth'
        ? await here(held)
        : (
            await transact((tx) =>
              kind === 'organization' ? issueOrganizationToken(tx, platform, ours.id, wish) : issuePersonalToken(tx, platform, people.admin.id, wish),
            )
          ).secret
    ).reveal()
    noteSecrets(secret)
    secrets.set(key, secret)
  }
  return secret
}
const sessionOf = async (role: OrganizationRole): Promise<Record<string, string>> => ({
  cookie: `${cookieName(world.config)}=${(await transact((tx) => startSession(tx, platform, people[role].id))).reveal()}`,
  origin: world.config.public_url.origin,
  'bursar-csrf': '1',
})

const expired = await transact((tx) => issuePersonalToken(tx, platform, people.admin.id, { comment: 'old', scopes, expires_in: 1 }))
const revoked = await ours.token()
await database.owner(async (owner) => {
  await owner.query(`update personal_access_tokens set expires_at = now() - interval '1 second' where id = $1`, [expired.token.id])
  await owner.query('delete from credentials where subject_id = $1', [revoked.id])
})
const good = await tokenOf('organization', [...scopes])
const dead: Record<string, Record<string, string>> = {
  malformed: bearer(`${good.slice(0, -1)}${good.endsWith('a') ? 'b' : 'a'}`),
  'made up': bearer(newToken('organization', 'sandbox').reveal()),
  'other environment': bearer(newToken('organization', 'production').reveal()),
  'other service': bearer('polar_oat_0123456789'),
  'right secret, wrong kind': bearer(good.replace('_oat_', '_pat_')),
  expired: bearer(expired.secret.reveal()),
  revoked: bearer(revoked.secret.reveal()),
}

/** With `--all`, every scope refusal is tested with our resources, with another tenant's and with absent ones. */
const all = process.argv.includes('--all')

/**
 * Without `--all`, tests a third of the single scopes. The selected third changes with each commit and from one
 * operation to the next. `--share=6` tests a sixth of them.
 */
const share = Number(process.argv.find((word) => word.startsWith('--share='))?.slice('--share='.length) ?? 3)
const mine = all ? 0 : Number(execFileSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })) % share
const isTried = (turn: number): boolean => all || turn % share === mine

/**
 * Returns the targets for a request with these scopes: our resources, another tenant's, or absent ones. A single scope
 * is tested with one of the three in turn. The set of all scopes except the right ones is tested with all three.
 */
const thingsFor = (turn: number, held: readonly Scope[], standing: Target): Target[] => {
  const things = [standing, other, absent()]
  return all || held.length > 1 ? things : isTried(turn) ? [things[Math.floor(turn / share) % 3]!] : []
}

/**
 * The headers of a portal session with the role `member`. Answers to requests with these headers must contain none of
 * the texts in `concealed`.
 */
let plainly: Record<string, string> | undefined

type Way = readonly [Credential, (fresh?: boolean) => Promise<Record<string, string>>]

interface Answer {
  /** The body as received, with ids unmasked. */
  raw: string
  status: number
  error: string
  body: string
  headers: string
}

const send = async (operation: (typeof operations)[number], row: Policy, target: Target, headers: Record<string, string>): Promise<Answer> => {
  const { path, body, form } = row.ask(target)
  const payload = form ? new URLSearchParams(form).toString() : body === undefined ? undefined : JSON.stringify(body)
  const answer = await world.api.server.inject({
    method: operation.method,
    url: path,
    headers: { ...headers, ...(payload === undefined ? {} : { 'content-type': form ? 'application/x-www-form-urlencoded' : 'application/json' }) },
    ...(payload === undefined ? {} : { payload }),
  })
  cells++
  checkExchange(operation.method, path, {
    status: answer.statusCode,
    headers: new Headers(Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)])),
    text: answer.body,
  })
  const { 'x-request-id': _, date: __, ratelimit: ___, ...rest } = answer.headers
  const shown = `${answer.body} ${JSON.stringify(rest)}`
  if (headers === plainly && concealed.some((text) => shown.includes(text))) leaks.push(`${operation.id} shows a plain member data that only managers may see`)
  for (const canary of canaries) if (shown.includes(canary)) leaks.push(`${operation.id} shows a text of another tenant`)
  if (answer.statusCode >= 500) problems.push(`${operation.id} answers ${answer.statusCode}`)
  let error = ''
  try {
    error = (JSON.parse(answer.body) as { error?: string }).error ?? ''
  } catch {
    // The answer has no JSON body, so it has no error name.
  }
  // Masks the ids of the request in the answer. An answer may repeat them, and they differ between the compared requests.
  const masked = Object.values(target).reduce((text: string, id: string) => (id === '' ? text : text.replaceAll(id, '<id>')), answer.body)
  // Masks the client secret in the redirect of a checkout link, because each request creates a new checkout.
  const told = JSON.stringify(rest)
    .replace(/bursar_test_c_[0-9A-Za-z]{43}/g, '<secret>')
    // Masks the random browser id in the cookie that every request for a sign-in code sets.
    .replace(/_code=[a-z2-7]{32}-0;/g, '_code=<browser>;')
  return { raw: answer.body, status: answer.statusCode, error, body: masked, headers: told }
}

/** Sends a request that the policy permits, and records what it costs others. */
const sendPermitted: typeof send = (operation, ...request) => costs.during(operation, () => send(operation, ...request))

/** Sends the costly request of the operation, if it has one. It must succeed. */
const sendCostly = async (operation: (typeof operations)[number], row: Policy, headers: Record<string, string>) => {
  const costly = costlyPolicy(operation.id, row)
  if (!costly) return
  const answer = await sendPermitted(operation, costly, await furnish(ours.id, people.owner.id, people.admin.id, costly), headers)
  if (answer.status >= 300) problems.push(`${operation.id}, its costly request: got ${describe(answer)} ${answer.body.slice(0, 200)}`)
}

const wantedAnswer = (row: Policy): string => (typeof row.granted === 'number' ? `${row.granted}` : `${row.granted[0]} ${row.granted[1]}`)
const describe = ({ status, error }: Answer): string => (error === '' || status < 300 ? `${status}` : `${status} ${error}`)
const expectAnswer = (where: string, answer: Answer, wanted: string) => {
  if (describe(answer) !== wanted) problems.push(`${where}: wanted ${wanted}, got ${describe(answer)} ${answer.body.slice(0, 200)}`)
}
const expectSame = (where: string, a: Answer, b: Answer) => {
  if (a.status !== b.status || a.body !== b.body || a.headers !== b.headers)
    leaks.push(`${where}: "exists elsewhere" and "absent" can be told apart\n  ${a.status} ${a.body}\n  ${b.status} ${b.body}`)
}

for (const id of Object.keys(policy))
  if (!operations.some((operation) => operation.id === id)) problems.push(`the policy has a row for ${id}, which does not exist`)

// `node server/test/security/matrix/run.ts organizations: catalog` tests the operations with these prefixes. Without arguments, all are tested.
const only = process.argv.slice(2).filter((word) => !word.startsWith('--'))
// `--part=1/2` tests every second operation.
const [part = 0, parts = 1] = (
  process.argv
    .find((word) => word.startsWith('--part='))
    ?.slice('--part='.length)
    .split('/') ?? []
).map(Number)
const chosen = operations.filter(({ id }, at) => at % parts === part && (only.length === 0 || only.some((start) => id.startsWith(start))))
for (const operation of chosen) {
  const row = policy[operation.id]
  if (!row) {
    problems.push(`the policy has no row for ${operation.id}`)
    continue
  }
  const mine = () => furnish(ours.id, people.owner.id, people.admin.id, row)
  const at = (what: string) => `${operation.id} × ${what}`
  const standing = await mine()
  const notMine = row.foreign === 'invalid' ? '422 RequestValidationError' : '404 ResourceNotFound'

  const rest = scopes.filter((scope) => !row.scopes.includes(scope))
  const sets: readonly (readonly Scope[])[] = [...scopes.map((scope) => [scope]), rest]
  // Creates tokens before taking the digest. Otherwise the matrix's own writes would look like writes of the server.
  for (const held of [...sets, [...scopes]]) for (const kind of tokenKinds) await tokenOf(kind, held)
  const outside = [await apps.elsewhere([...scopes]), await apps.left([...scopes])].map((secret) => bearer(secret.reveal()))
  const portals = Object.fromEntries(await Promise.all(portalRoles.map(async (role) => [role, await portalOf(role)] as const))) as unknown as Record<
    PortalRole,
    Record<string, string>
  >
  plainly = portals.member
  const sessions = Object.fromEntries(await Promise.all(organizationRoles.map(async (role) => [role, await sessionOf(role)] as const))) as Record<
    OrganizationRole,
    Record<string, string>
  >

  // Sends all requests that must be refused. The database must be the same before and after them.
  const before = await digest()
  const anonymous = await sendPermitted(operation, row, standing, {})
  if (isVerdicts(row.who)) {
    await overVerdicts(operation, row, row.who, sessions.admin, anonymous)
    continue
  }
  if (row.who === 'open') {
    expectAnswer(at('none'), anonymous, wantedAnswer(row))
    for (const [name, headers] of Object.entries(dead)) expectSame(at(name), await send(operation, row, standing, headers), anonymous)
    for (const [turn, scope] of scopes.entries())
      for (const kind of isTried(turn) ? tokenKinds : [])
        expectSame(at(`${kind} ${scope}`), await send(operation, row, standing, bearer(await tokenOf(kind, [scope]))), anonymous)
    for (const role of portalRoles) expectSame(at(`portal ${role}`), await send(operation, row, standing, portals[role]), anonymous)
    // A request that is answered with 202 may write, and a checkout link (302) creates a checkout. All others must change nothing.
    if (row.granted !== 202 && row.granted !== 302 && (await digest()) !== before)
      leaks.push(`${operation.id}: a request without a credential changed something`)
    await sendCostly(operation, row, {})
    continue
  }
  expectAnswer(at('none'), anonymous, '401 Unauthorized')
  for (const [name, headers] of Object.entries(dead)) expectAnswer(at(name), await send(operation, row, standing, headers), '401 invalid_token')

  if (row.who === 'portal') {
    await overPortal(operation, row, portals, before)
    continue
  }
  for (const role of portalRoles)
    for (const target of row.foreign ? [standing, other, absent()] : [standing])
      expectAnswer(at(`portal ${role}`), await send(operation, row, target, portals[role]), '401 invalid_token')

  for (const kind of tokenKinds) {
    const accepted = row.who !== 'person' && row.who.includes(kind)
    const wrong = row.who === 'person' ? '403 NotPermitted' : accepted ? '403 insufficient_scope' : '401 Unauthorized'
    for (const [turn, held] of sets.filter((held) => !accepted || !held.some((scope) => row.scopes.includes(scope))).entries())
      for (const target of row.foreign ? thingsFor(turn, held, standing) : held.length > 1 || isTried(turn) ? [standing] : [])
        expectAnswer(
          at(`${kind} with ${held.length === 1 ? held[0] : 'all but the right scope'}`),
          await send(operation, row, target, bearer(await tokenOf(kind, held))),
          wrong,
        )
  }

  // Requests for another tenant's resources and for absent ids, with a right credential, scope and role, must get the same answer.
  const credentials = (row.who === 'person' ? (['session'] as const) : row.who).flatMap((kind): Way[] =>
    kind === 'session'
      ? [[kind, async (fresh = false) => (fresh ? sessionOf('admin') : sessions.admin)]]
      : row.scopes.map((scope) => [kind, async () => bearer(await tokenOf(kind, [scope]))]),
  )
  if (row.foreign)
    for (const [kind, headers] of credentials) {
      // An organization token is refused if its request names any organization.
      if (row.implied && kind === 'organization') {
        expectAnswer(at('organization, naming one'), await send(operation, row, other, await headers()), notMine)
        continue
      }
      const hidden = await send(operation, row, other, await headers())
      expectAnswer(at(`${kind}, a neighbour's`), hidden, notMine)
      expectSame(at(kind), hidden, await send(operation, row, absent(), await headers()))
      if (!row.nested) continue
      const outer = { [row.nested]: standing[row.nested] }
      const smuggled = await send(operation, row, { ...other, ...outer }, await headers())
      expectAnswer(at(`${kind}, a neighbour's in our address`), smuggled, notMine)
      expectSame(at(`${kind}, nested`), smuggled, await send(operation, row, { ...absent(), ...outer }, await headers()))
      // Also tests a member of another customer in our organization, because a member belongs to one customer only.
      if (row.nested !== 'organization_id' && row.nested !== 'product_id')
        expectSame(at(`${kind}, our neighbour's`), smuggled, await send(operation, row, { ...neighbour, ...outer }, await headers()))
      expectAnswer(
        at(`${kind}, ours in a neighbour's address`),
        await send(operation, row, { ...standing, [row.nested]: other[row.nested] }, await headers()),
        notMine,
      )
    }

  // Our resources must look absent to an app without authorization for our organization, and to one whose user has left it.
  if (row.foreign && row.who !== 'person' && row.who.includes('oauth'))
    for (const headers of outside) {
      const hidden = await send(operation, row, standing, headers)
      expectAnswer(at('an app elsewhere'), hidden, notMine)
      expectSame(at('an app elsewhere'), hidden, await send(operation, row, absent(), headers))
    }

  // Lists must contain no row of our organization for an app that may not access it. For an app that is restricted to
  // our organization, they must contain no row of the person's other organization.
  if (!row.foreign && operation.method === 'GET' && row.who !== 'person' && row.who.includes('oauth')) {
    for (const headers of outside)
      if ((await send(operation, row, standing, headers)).raw.includes(ours.id)) leaks.push(`${operation.id} shows an app what it was not given`)
    if ((await send(operation, row, standing, bearer(await tokenOf('oauth', [...scopes])))).raw.includes(elsewhere.id))
      leaks.push(`${operation.id} shows an app an organization that it was not given`)
  }

  // Organization roles that may not call the operation must be refused.
  for (const role of organizationRoles.filter((role) => row.roles && !row.roles.includes(role))) {
    expectAnswer(at(`${role}'s session`), await send(operation, row, standing, sessions[role]), '403 NotPermitted')
  }
  if ((await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)

  // Permitted callers: each credential with the right scopes, and the session of each permitted role.
  for (const [kind, headers] of credentials) {
    const target = row.implied && kind === 'organization' ? { ...(await mine()), organization_id: '' } : await mine()
    expectAnswer(
      at(`${kind}, granted`),
      await sendPermitted(operation, row, target, await headers(true)),
      kind === 'oauth' && row.confined ? row.confined : wantedAnswer(row),
    )
    await join(ours.id, people.admin.id, 'admin')
  }
  if (row.who !== 'person' && row.who.includes('oauth')) {
    expectAnswer(at('an app, joined later'), await sendPermitted(operation, row, await mine(), bearer(laterToken.reveal())), wantedAnswer(row))
    await join(ours.id, joiner.id, 'admin')
  }
  if (!row.personal)
    for (const role of organizationRoles.filter((role) => !row.roles || row.roles.includes(role))) {
      const wanted = operation.id === 'organizations:leave' && role === 'owner' ? '403 NotPermitted' : wantedAnswer(row)
      expectAnswer(at(`${role}'s session, granted`), await sendPermitted(operation, row, await mine(), await sessionOf(role)), wanted)
      await join(ours.id, people[role].id, role)
    }
  await sendCostly(operation, row, sessions.admin)
}

problems.push(...costs.problems(chosen))
await world.close()
const { figures, problems: leaked } = await endRun()
leaks.push(...leaked)
console.log(figures)
for (const problem of problems.slice(0, 50)) console.log(`FAIL ${problem}`)
for (const leak of leaks.slice(0, 50)) console.log(`LEAK ${leak}`)
if (problems.length > 0) console.log(`${problems.length} verdicts differ from the policy`)
console.log(`cells: ${cells} · leaks: ${leaks.length}`)
process.exitCode = problems.length + leaks.length > 0 ? 1 : 0

/**
 * Checks a portal operation with tokens of other surfaces, and with a session of each role. Requests name resources of
 * the team, of a neighbour, of another tenant, and absent ids.
 */
async function overPortal(
  operation: (typeof operations)[number],
  row: Policy,
  portals: Record<PortalRole, Record<string, string>>,
  before: string,
): Promise<void> {
  const at = (what: string) => `${operation.id} × ${what}`
  const standing = neighbour
  for (const kind of tokenKinds)
    for (const scope of scopes)
      expectAnswer(at(`${kind} ${scope}`), await send(operation, row, standing, bearer(await tokenOf(kind, [scope]))), '401 invalid_token')
  const refused: Partial<Record<PortalRole, string>> = Object.fromEntries(
    portalRoles
      .filter((role) => !row.portal!.includes(role))
      .map((role) => [role, row.membersOnly && role === 'customer' ? '401 Unauthorized' : row.hidden ? '404 ResourceNotFound' : '403 NotPermitted']),
  )
  for (const role of portalRoles) {
    const wrong = refused[role] ?? (row.foreign ? '404 ResourceNotFound' : undefined)
    if (!wrong) continue
    const answers = []
    for (const target of row.foreign ? [neighbour, other, absent()] : [neighbour]) answers.push(await send(operation, row, target, portals[role]))
    for (const answer of answers) {
      expectAnswer(at(`portal ${role}, not theirs`), answer, wrong)
      expectSame(at(`portal ${role}`), answer, answers[0]!)
    }
  }
  if ((await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)
  for (const role of row.portal!)
    expectAnswer(at(`portal ${role}, granted`), await sendPermitted(operation, row, await ofCrew(row), portals[role]), wantedAnswer(row))
  for (const role of portalRoles.filter((one) => refused[one]))
    expectAnswer(at(`portal ${role}, in the team`), await send(operation, row, await ofCrew(row), portals[role]), refused[role]!)
}

/**
 * Checks an operation whose policy lists explicit verdicts. Every token that the operation does not accept must get the
 * same answer. A stranger must get the same refusal for real and for absent resources.
 */
async function overVerdicts(
  operation: (typeof operations)[number],
  row: Policy,
  verdicts: Verdicts,
  owner: Record<string, string>,
  anonymous: Answer,
): Promise<void> {
  const at = (what: string) => `${operation.id} × ${what}`
  const theirs = () => furnish(ours.id, people.owner.id, people.owner.id, row)
  expectAnswer(at('none'), anonymous, verdicts.nobody)
  const target = await theirs()
  const before = await digest()
  for (const [name, headers] of Object.entries(dead)) expectAnswer(at(name), await send(operation, row, target, headers), verdicts.bearer)
  for (const scope of scopes)
    for (const kind of tokenKinds) {
      const wanted = kind === 'oauth' && verdicts.oauth && scope !== 'openid' ? verdicts.oauth : kind === 'oauth' && verdicts.oauth ? '200' : verdicts.bearer
      expectAnswer(at(`${kind} ${scope}`), await send(operation, row, target, bearer(await tokenOf(kind, [scope]))), wanted)
    }
  const stranger = await send(operation, row, target, owner)
  expectAnswer(at("a stranger's session"), stranger, verdicts.stranger)
  if (verdicts.stranger.startsWith('4')) expectSame(at('a stranger'), stranger, await send(operation, row, absent(), owner))
  if (!verdicts.nobody.startsWith('2') && (await digest()) !== before) leaks.push(`${operation.id}: a refused request changed something`)
  expectAnswer(
    at("the owner's session"),
    await sendPermitted(operation, row, await furnish(ours.id, people.owner.id, people.admin.id, row), owner),
    verdicts.owner,
  )
}

function isVerdicts(who: Policy['who']): who is Verdicts {
  return typeof who === 'object' && 'nobody' in who
}

/** Returns a digest of every row of every table. Ignores when a token was last used. */
async function digest(): Promise<string> {
  return database.owner(async (owner) => {
    const { rows: tables } = await owner.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
    )
    const parts: string[] = []
    for (const { name } of tables) {
      const { rows } = await owner.query<{ sum: string }>(
        `select coalesce(md5(string_agg(t, '' order by t)), '') as sum from (select (to_jsonb(x) - 'last_used_at')::text as t from "${name}" x) s`,
      )
      parts.push(`${name}:${rows[0]!.sum}`)
    }
    const { rows: jobs } = await owner.query<{ count: string }>('select count(*) from graphile_worker._private_jobs')
    return `${parts.join()} jobs:${jobs[0]!.count}`
  })
}

/** Writes a random text into every text column of the other tenant that can hold one. Returns these texts. */
async function plantCanaries(): Promise<string[]> {
  return database.owner(async (owner) => {
    const fixed = [
      'type',
      'visibility',
      'recurring_interval',
      'trial_interval',
      'meter_interval',
      'source',
      'amount_type',
      'duration',
      'code',
      'unit',
      'unit_amount',
      'price_currency',
      'tax_behavior',
      'collection',
      'owner',
      'key',
      'status',
      'role',
      'kind',
      'hash',
      'default_presentment_currency',
      'default_tax_behavior',
      'country',
      'state',
      'provider',
      'account',
      'currency',
      'lease_holder',
      'api_version',
      'tax_id_format',
      'customer_tax_id_status',
      'tax_id',
      'processor',
      'member_phase',
      'format',
      'paused_reason',
      'secret_sealed',
      'key_sealed',
      'actor_kind',
      'billing_reason',
      'behavior',
      'reason',
      'trigger',
      'service',
      'problem',
      'public_url',
      'resource',
      'measure',
    ]
    const { rows: columns } = await owner.query<{ table: string; column: string; tenant: string }>(
      `select c.table_name as table, c.column_name as column, k.column_name as tenant
       from information_schema.columns c
       join information_schema.columns k on k.table_schema = 'public' and k.table_name = c.table_name
         and k.column_name = case when c.table_name = 'organizations' then 'id' when c.table_name = 'users' then 'id' when c.table_name = 'personal_access_tokens' then 'user_id' else 'organization_id' end
       join information_schema.tables t on t.table_schema = 'public' and t.table_name = c.table_name and t.table_type = 'BASE TABLE'
       where c.table_schema = 'public' and c.data_type = 'text' and c.column_name <> all($1)`,
      [fixed],
    )
    const planted: string[] = []
    // The triggers that protect the taxes of orders are off meanwhile.
    await owner.query('alter table order_taxes disable trigger order_taxes_stay; alter table tax_quotes disable trigger tax_quotes_stay')
    for (const [table, own] of Map.groupBy(columns, (column) => column.table)) {
      const { rows } = await owner.query<{ ctid: string }>(`select ctid from "${table}" where "${own[0]!.tenant}" = any($1)`, [
        [theirs.id, stranger.id, furnished.member_id],
      ])
      for (const { ctid } of rows) {
        const texts = own.map(() => `c${randomBytes(16).toString('hex')}`)
        const set = own.map(({ column }, at) => `"${column}" = $${at + 2}${column === 'email' || column === 'sender_address' ? ` || '@people.test'` : ''}`)
        await owner.query(`update "${table}" set ${set.join(', ')} where ctid = $1`, [ctid, ...texts])
        planted.push(...texts)
      }
    }
    await owner.query('alter table order_taxes enable trigger order_taxes_stay; alter table tax_quotes enable trigger tax_quotes_stay')
    if (planted.length < 10) throw new Error(`only ${planted.length} canaries could be planted`)
    return planted
  })
}
