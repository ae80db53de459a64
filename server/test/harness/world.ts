import { appendFileSync } from 'node:fs'
import { request as send } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { scopes, type OrganizationRole, type Scope } from '@bursar/contract'
import { connect, type Client } from '@bursar/contract/client'
import { trimEndOf } from '../../src/kernel/texts.ts'
import { randomText, type Secret, type Environment } from '../../src/kernel/secrets.ts'
import { openApi, openWorker, type Replaced } from '../../src/main/wire.ts'
import { cookieName, createUser, issueOrganizationToken, issuePersonalToken, startSession } from '../../src/modules/identity/index.ts'
import { createOrganization, insertMembership, type OrganizationRow } from '../../src/modules/organizations/index.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { readConfig, type Config } from '../../src/platform/config.ts'
import { openLog } from '../../src/platform/log.ts'
import { openTelemetry } from '../../src/platform/telemetry.ts'
import { operations } from '@bursar/contract'
import { longestWait } from './pace.ts'
import { checkAnswer } from './contract.ts'
import { cloneDatabase, pepper as peppered, sealingKey as sealing } from './database.ts'
import { openMailbox } from './mail.ts'
import { logFile, noteSecrets } from './secrets.ts'

/** A clock that a test can advance. A test can also stop it (`hold`), so that results do not depend on the machine's speed. */
export const openClock = () => {
  let ahead = 0
  let held: number | null = null
  const now = () => new Date((held ?? Date.now()) + ahead)
  const clock: Clock = { wall: now, business: now }
  return {
    ...clock,
    advance: (milliseconds: number) => void (ahead += milliseconds),
    hold: () => void (held ??= Date.now()),
    release: () => void (held = null),
  }
}

export const sealingKey = sealing.toString('base64')
export const pepper = peppered.toString('base64')

export const variables = (database: { url: string; owner_url: string }, mail_url: string, environment: Environment = 'sandbox'): Record<string, string> => ({
  BURSAR_ENV: environment,
  BURSAR_DATABASE_URL: database.url,
  BURSAR_DATABASE_OWNER_URL: database.owner_url,
  BURSAR_DATABASE_CONNECTIONS: '10',
  // A long timeout, because tests send a hundred requests at once on a shared machine.
  BURSAR_DATABASE_TIMEOUT_MS: '40000',
  BURSAR_REDIS_TIMEOUT_MS: '40000',
  BURSAR_REDIS_URL: process.env.BURSAR_TEST_REDIS ?? 'redis://127.0.0.1:6379',
  BURSAR_PEPPERS: `1:${pepper}`,
  BURSAR_SEALING_KEYS: `1:${sealingKey}`,
  // Rate limits are raised, but never switched off.
  BURSAR_BUDGETS: JSON.stringify({
    checkout_link: [[1_000_000, 60]],
    api: [[1_000_000, 60]],
    dashboard: [[1_000_000, 60]],
    page_session: [[1_000_000, 60]],
    new_page_sessions: [[1_000_000, 60]],
    page_address: [[1_000_000, 60]],
    sign_in: [[1_000_000, 60]],
    registration: [[1_000_000, 60]],
    checkout_declines: [[1_000_000, 60]],
    vat_checks: [[1_000_000, 60]],
    vat_checks_of_sellers: [[1_000_000, 60]],
    received_events: [[1_000_000, 60]],
    refused_events: [[1_000_000, 60]],
    license_keys: [[1_000_000, 60]],
    failed_authentications: [[1_000_000, 60]],
    other_paths: [[1_000_000, 60]],
    readiness: [[1_000_000, 60]],
  }),
  BURSAR_PUBLIC_URL: 'https://bursar.test',
  BURSAR_LISTEN: '127.0.0.1:0',
  BURSAR_ADMIN_LISTEN: '127.0.0.1:0',
  BURSAR_SMTP_URL: mail_url,
  // The server creates this folder with the first file. The test run deletes it at its end.
  BURSAR_STORAGE_DIR: `${process.env.BURSAR_TEST_SCRATCH ?? '.scratch'}/storage/${new URL(database.url).pathname.slice(1)}`,
  BURSAR_LOG_LEVEL: 'trace',
})

export interface Exchange {
  status: number
  headers: Headers
  text: string
}

/** Sends one request over a real socket, with the headers exactly as given. Throws if the contract does not allow the answer. */
export const exchange = (
  port: number,
  method: string,
  path: string,
  headers: Record<string, string | string[]> = {},
  body?: string | Buffer,
): Promise<Exchange> =>
  new Promise((resolve, reject) => {
    const outgoing = send(
      { host: '127.0.0.1', port, method, path, headers: { ...(body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }), ...headers } },
      (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          const received = new Headers()
          for (let at = 0; at < incoming.rawHeaders.length; at += 2) received.append(incoming.rawHeaders[at]!, incoming.rawHeaders[at + 1]!)
          noteSecrets(`${text} ${received.get('set-cookie') ?? ''}`)
          const answer = { status: incoming.statusCode!, headers: received, text }
          try {
            checkExchange(method, path, answer)
            resolve(answer)
          } catch (error) {
            reject(error)
          }
        })
        incoming.on('error', reject)
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })

/** Throws if the contract does not allow this answer of an operation. Called for every request that a test sends. */
export const checkExchange = (method: string, path: string, answer: Exchange): void => {
  const operation = findOperation(method, path)
  const json = (answer.headers.get('content-type') ?? '').includes('json') && answer.text !== ''
  if (operation) checkAnswer(operation, { ...answer, body: json ? (JSON.parse(answer.text) as unknown) : answer.text })
}

export interface WorldOptions {
  environment?: Environment
  worker?: boolean
  settings?: Record<string, string>
  /** A clock that the system shares with other systems or stand-ins of the test. Default: a new one. */
  clock?: ReturnType<typeof openClock>
  /** Makes the system reachable by a real browser: the public URL is the listening address. */
  browser?: boolean
  /** Wraps the renderer of pages. */
  rendering?: Replaced['rendering']
}

export const freePort = () =>
  new Promise<number>((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

/** Opens a complete test system: a database, a mail server and the API on a real port. Its functions create people and organizations. */
export const openWorld = async ({
  environment = 'sandbox',
  worker = false,
  settings = {},
  browser = false,
  clock = openClock(),
  rendering,
}: WorldOptions = {}) => {
  const [database, mail] = await Promise.all([cloneDatabase(environment), openMailbox()])
  const lines: string[] = []
  const log = openLog('trace', {
    write: (line: string) => {
      lines.push(line)
      if (line.includes('"level":"error"')) process.stderr.write(line)
      appendFileSync(logFile(), line)
    },
  })
  const wanted = browser ? await freePort() : 0
  const environmentVariables = {
    ...variables(database, mail.url, environment),
    ...(browser ? { BURSAR_PUBLIC_URL: `http://127.0.0.1:${wanted}` } : {}),
    ...settings,
  }
  const config: Config = readConfig(environmentVariables)
  const base = { config, clock, log, telemetry: openTelemetry() }
  const api = await openApi(base, rendering ? { rendering } : {})
  await api.server.listen({ host: '127.0.0.1', port: wanted })
  const { port } = api.server.server.address() as AddressInfo
  const working = worker ? await openWorker(base) : undefined
  const { platform } = api
  const { transact } = api.postgres

  const client = (credentials: { token?: Secret | string; cookie?: string } = {}, extra: Record<string, string> = {}): Client => {
    const headers: Record<string, string> = { ...extra }
    if (credentials.token !== undefined)
      headers.authorization = `Bearer ${typeof credentials.token === 'string' ? credentials.token : credentials.token.reveal()}`
    if (credentials.cookie !== undefined) Object.assign(headers, { cookie: credentials.cookie, origin: config.public_url.origin, 'bursar-csrf': '1' })
    return connect((request) => exchange(port, request.method, request.url, request.headers, request.body), headers)
  }

  const secretly = (secret: Secret): Secret => {
    noteSecrets(secret.reveal())
    return secret
  }

  const person = async (options: { email?: string; is_operator?: boolean } = {}) => {
    const email = options.email ?? `${randomText(10, 'abcdefghijklmnop')}@people.test`
    const user = await transact((tx) => createUser(tx, { email, is_operator: options.is_operator ?? false }))
    return {
      ...user,
      cookie: () => cookie(user.id, user.is_operator),
      token: (wanted: readonly Scope[] = scopes, expires_in: number | null = null) => personalToken(user.id, wanted, expires_in),
    }
  }

  const cookie = async (user_id: string, second_factor = false) =>
    `${cookieName(config)}=${secretly(await transact((tx) => startSession(tx, platform, user_id, { second_factor }))).reveal()}`

  const personalToken = async (user_id: string, wanted: readonly Scope[] = scopes, expires_in: number | null = null) => {
    const { secret, token } = await transact((tx) => issuePersonalToken(tx, platform, user_id, { comment: 'test', scopes: wanted, expires_in }))
    return { id: token.id, secret: secretly(secret) }
  }

  const organization = async (options: { slug?: string; owner?: string } = {}) => {
    const slug = options.slug ?? `org-${randomText(10, 'abcdefghijklmnop')}`
    const row = await transact((tx) =>
      createOrganization(tx, { name: `Organization ${slug}`, slug, default_presentment_currency: 'usd', default_tax_behavior: 'location' }, environment),
    )
    return adopt(row, options.owner)
  }

  /** Adds an owner to an existing organization. Returns the organization with functions such as one that issues tokens. */
  const adopt = async (row: OrganizationRow, given?: string) => {
    const owner = given ?? (await person()).id
    await join(row.id, owner, 'owner')
    return {
      ...row,
      owner,
      token: async (wanted: readonly Scope[] = scopes, expires_in: number | null = null) => {
        const { secret, token } = await transact((tx) => issueOrganizationToken(tx, platform, row.id, { comment: 'test', scopes: wanted, expires_in }))
        return { id: token.id, secret: secretly(secret) }
      },
    }
  }

  /** Opens an organization with an API client that has every scope, and access to its events. */
  const shop = async (given?: Awaited<ReturnType<typeof adopt>>) => {
    const made = given ?? (await organization())
    return {
      organization: made,
      api: client({ token: (await made.token()).secret }),
      /** Returns a client with the owner's browser session, for operations that no token may call. */
      dashboard: async () => client({ cookie: await cookie(made.owner) }),
      /** Returns the events so far, oldest first: type and data. */
      events: async (...kinds: string[]) => {
        const { rows } = await database.owner((owner) =>
          owner.query<{ payload: { type: string; data: Record<string, unknown> } }>('select payload from events where organization_id = $1 order by position', [
            made.id,
          ]),
        )
        return rows.map(({ payload }) => payload).filter(({ type }) => kinds.length === 0 || kinds.includes(type))
      },
      /** Sets the organization's phase of the member migration. */
      phase: (phase: 'before' | 'phase1' | 'phase2') =>
        database.owner((owner) => owner.query('update organizations set member_phase = $2 where id = $1', [made.id, phase])),
    }
  }

  const join = (organization_id: string, user_id: string, role: OrganizationRole) =>
    transact((tx) => insertMembership(tx, organization_id, user_id, role, clock.business()))

  return {
    adopt,
    api,
    base,
    clock,
    client,
    config,
    database,
    join,
    lines,
    mail,
    organization,
    person,
    platform,
    port,
    shop,
    /** Starts a session of a person, and returns its cookie. */
    signIn: (user_id: string) => cookie(user_id),
    transact,
    transactAsWorker: working?.postgres.transact ?? transact,
    environmentVariables,
    working,
    close: async () => {
      await working?.close()
      await api.close()
      await mail.close()
      await database.drop()
    },
  }
}
export type World = Awaited<ReturnType<typeof openWorld>>

/** Returns the API operation of a method and path, if any. Fixed path segments win over parameters. */
export const findOperation = (method: string, address: string) => {
  const have = partsOf(address)
  return bySpecificity.find(
    ({ operation, want }) => operation.method === method && want.length === have.length && want.every((part, at) => part.startsWith('{') || part === have[at]),
  )?.operation
}
const partsOf = (path: string) => trimEndOf(path.split('?')[0]!, '/').split('/')
const bySpecificity = operations
  .map((operation) => ({ operation, want: partsOf(operation.path), named: operation.path.split('{').length }))
  .toSorted((a, b) => a.named - b.named)

/** Polls until a condition is true. Throws if the condition is still false at the timeout. */
export const eventually = async <T>(what: string, ask: () => Promise<T | undefined | false>, within = (longestWait * 5) / 3): Promise<T> => {
  const until = performance.now() + within
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    if (performance.now() > until) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
