import { hash, randomBytes } from 'node:crypto'
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join, relative, resolve } from 'node:path'
import { bursar } from '../kernel/command-name.ts'
import { Secret } from '../kernel/secrets.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig, type Address, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { createDatabase, DatabaseRefused, dropDatabase, contentOf, migrate } from '../platform/migrations/migrations.ts'
import { openStatus } from './bar.ts'
import { registerSandbox, unregisterSandbox, type RunningSandbox, type SharedSettings } from './dev-registry.ts'
import { devFolder } from './dev-settings.ts'
import { startEmbedded } from './embedded.ts'
import type { Made } from './seed-sandbox.ts'
import { run, signalled } from './serve.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  fresh?: boolean | undefined
  dir?: string | undefined
  env?: string | undefined
}

/**
 * Runs a whole sandbox with sample data in one process: database, API, worker, pages and a webhook receiver. All its
 * data is in one folder. Nothing keeps running after this process ends.
 */
export const dev = async (values: Values): Promise<void> => {
  if (values.env !== undefined && values.env !== 'sandbox') throw new Usage('dev runs as a sandbox only')
  const stopped = signalled()
  let reason: string | undefined
  void stopped.then((name) => (reason = name))
  const left = () => reason !== undefined
  const folder = resolve(values.dir ?? devFolder)
  const steps = openSteps(values.json ?? false)
  const own = process.env.DATABASE_URL === undefined || process.env.DATABASE_URL === '' ? undefined : new Secret(process.env.DATABASE_URL)
  const closers: (() => unknown)[] = []
  try {
    closers.push(await claimFolder(folder))
    // Checks all settings before any process is started or any data is deleted.
    const rough = settle(folder, { peppers: key(), sealing_keys: key() }, own ?? new Secret('postgres://localhost/bursar'), {})
    const { listen, admin_listen } = await findPorts(rough)

    if (values.fresh) await throwAway(folder, own)
    mkdirSync(folder, { recursive: true })
    const state = readState(folder)
    // Loads all code while the database starts, because both take about equally long.
    const code = Promise.all([import('./seed-sandbox.ts'), import('./receiver.ts'), import('./wire.ts')])
    code.catch(() => {}) // Prevents an unhandled rejection. The error is reported where `code` is awaited.
    if (!own) steps.say(existsSync(join(folder, 'postgres')) ? 'starting PostgreSQL' : 'creating the data of PostgreSQL')
    const embedded = own ? undefined : await startEmbedded(folder, 'bursar')
    steps.say('loading the code')
    if (embedded) closers.push(() => embedded.stop())
    const [{ seedSandbox }, { openReceiver }] = await code
    const receiver = await openReceiver(state.receiver_port ?? 0)
    closers.push(() => receiver.close())
    state.receiver_port = receiver.port
    if (left()) return
    const config = settle(folder, state, own ?? new Secret(embedded!.url), { listen, admin_listen })
    steps.say('preparing the database')
    await prepare(folder, state, config, own !== undefined, steps)
    if (left()) return
    steps.say('starting the API and the worker')

    await run({
      config,
      log: openLog(config.log_level, createWriteStream(join(folder, 'server.log'))),
      roles: ['api', 'worker'],
      stopped: embedded ? Promise.race([stopped, embedded.lost.then(giveUp)]) : stopped,
      serving: async () => {
        steps.say('creating the sample data')
        const made = await seedSandbox({ config, local: `http://${textOf(listen)}`, token: state.token, receiver })
        writeState(folder, { ...state, token: made.token })
        const env = writeEnv(folder, made)
        const settings = settingsOf(folder, state, config.database_url, { listen, admin_listen })
        const unregister = register({ folder, pid: process.pid, settings, api: `http://${textOf(listen)}`, token: made.token })
        closers.push(unregister)
        steps.end()
        say(values.json ? JSON.stringify({ ...made, env, ready_ms: Math.round(performance.now()) }) : describe(made, env))
        receiver.tell()
      },
    })
  } finally {
    steps.end()
    for (const close of closers.toReversed()) await close()
  }
}

/** Lets other commands find the sandbox for as long as this process runs. Without a private folder for this, says so and continues. */
const register = (sandbox: RunningSandbox): (() => void) => {
  try {
    registerSandbox(sandbox)
    return () => unregisterSandbox(sandbox.folder)
  } catch (error) {
    process.stderr.write(`bursar: other commands need settings to find this sandbox, because it cannot be registered: ${(error as Error).message}\n`)
    return () => {}
  }
}

const giveUp = (): string => {
  process.stderr.write('bursar: the database process ended, so dev stops. The reason is in postgres.log, next to the data\n')
  process.exitCode = 1
  return 'the database process ended'
}

/** Says what `dev` is doing: on one line of a terminal, else as lines on stderr. With --json it says nothing. */
const openSteps = (silent: boolean) => {
  if (silent) return { say: () => {}, end: () => {} }
  if (process.stderr.isTTY) return openStatus('starting')
  return { say: (text: string) => void process.stderr.write(`${text} …\n`), end: () => {} }
}
type Steps = ReturnType<typeof openSteps>

const say = (text: string) => void process.stdout.write(`${text}\n`)
const key = () => `1:${randomBytes(32).toString('base64')}`

/** Allows one process per folder. Two processes would share a database, and one could delete the data of the other. */
const claimFolder = async (folder: string): Promise<() => void> => {
  // An abstract Unix socket ends with the process and leaves no stale lock file behind.
  if (process.platform !== 'linux') return () => {}
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`dev is already running with the data in ${folder}. Stop it first, or use another folder: ${bursar} dev --dir <folder>`)
          : error,
      ),
    )
    server.listen(`\0bursar-dev-${hash('sha256', folder).slice(0, 32)}`, resolve)
  })
  return () => void server.close()
}

/** Returns both addresses, with a free port where none was requested. Fails if a requested port is in use, and names all of these at once. */
const findPorts = async ({ listen, admin_listen }: Pick<Config, 'listen' | 'admin_listen'>) => {
  const wanted = [
    { setting: 'BURSAR_LISTEN', asked: listen },
    { setting: 'BURSAR_ADMIN_LISTEN', asked: admin_listen },
  ]
  const found = await Promise.all(wanted.map(async (one) => ({ ...one, address: await free(one.asked) })))
  const taken = found.filter(({ address }) => address === undefined)
  if (taken.length > 0) {
    const other = await Promise.all(taken.map(async ({ setting, asked }) => `${setting}=${asked.host}:${await freeAfter(asked)}`))
    const ports = taken.map(({ asked }) => asked.port).join(' and ')
    throw new Error(
      `port${taken.length === 1 ? '' : 's'} ${ports} ${taken.length === 1 ? 'is' : 'are'} in use, perhaps by another Bursar. Stop that process, or choose another port: ${other.join(' ')} ${bursar} dev`,
    )
  }
  return { listen: found[0]!.address!, admin_listen: found[1]!.address! }
}

/** Returns the address with the port that is free there, or undefined if the port is in use. */
const free = ({ host, port }: Address): Promise<Address | undefined> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error)))
    probe.listen(port, host, () => {
      const found = (probe.address() as AddressInfo).port
      probe.close(() => resolve({ host, port: found }))
    })
  })

/** Suggests a free port: the next one of the hundreds above, so that it is easy to remember. */
const freeAfter = async ({ host, port }: Address): Promise<number> => {
  for (let next = port + 100; next < 65_536; next += 100) if (await free({ host, port: next })) return next
  return 0
}

interface State {
  peppers: string
  sealing_keys: string
  /** The deployment that the keys in this file belong to. The keys cannot decrypt the data of another deployment. */
  deployment_id?: string
  /** The port of the webhook receiver. Every start uses the same port if it is free. */
  receiver_port?: number
  /**
   * The sandbox's access token, stored in full, so that every start can print it again and open shells can keep using
   * it. All other tokens are stored as hashes only.
   */
  token?: string
}

const stateFile = (folder: string) => join(folder, 'state.json')

const readState = (folder: string): State => {
  if (existsSync(stateFile(folder))) return JSON.parse(readFileSync(stateFile(folder), 'utf8')) as State
  const state = { peppers: key(), sealing_keys: key() }
  writeState(folder, state)
  return state
}

const writeState = (folder: string, state: State) => writeFileSync(stateFile(folder), `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 })

const hostText = ({ host }: Pick<Address, 'host'>) => (host.includes(':') ? `[${host}]` : host)
const textOf = (address: Address) => `${hostText(address)}:${address.port}`

interface Found {
  readonly listen?: Address
  readonly admin_listen?: Address
}

/** Builds the configuration from the environment. */
const settle = (folder: string, state: State, database: Secret, found: Found): Config =>
  readConfig({ ...process.env, ...settingsOf(folder, state, database, found) })

/** Returns the settings that must match each other. They override the environment. */
const settingsOf = (folder: string, { peppers, sealing_keys }: State, database: Secret, found: Found): SharedSettings => {
  return {
    BURSAR_ENV: 'sandbox',
    BURSAR_DATABASE_URL: database.reveal(),
    BURSAR_DATABASE_OWNER_URL: '',
    BURSAR_PEPPERS: peppers,
    BURSAR_SEALING_KEYS: sealing_keys,
    BURSAR_PUBLIC_URL: `http://localhost:${found.listen?.port ?? 0}`,
    BURSAR_AUTH_URL: '',
    // Prevents DNS rebinding: a foreign site could otherwise point its host name at this machine and read the sandbox's responses.
    BURSAR_ALLOWED_HOSTS: [
      ...[found.listen, found.admin_listen].map((address) => hostText(address ?? { host: 'localhost' })),
      process.env.BURSAR_ALLOWED_HOSTS || [],
    ]
      .flat()
      .join(','),
    BURSAR_SMTP_URL: '',
    BURSAR_MAIL_DIR: join(folder, 'mail'),
    BURSAR_COMMUNITIES_DIR: join(folder, 'communities'),
    // A configured S3 bucket takes precedence over the folder.
    ...(process.env.BURSAR_S3_BUCKET ? {} : { BURSAR_STORAGE_DIR: join(folder, 'storage') }),
    BURSAR_EGRESS_LOOPBACK: 'true',
    ...(found.listen ? { BURSAR_LISTEN: textOf(found.listen) } : {}),
    ...(found.admin_listen ? { BURSAR_ADMIN_LISTEN: textOf(found.admin_listen) } : {}),
    // One developer needs more requests than the sandbox of a deployment grants to one of many.
    BURSAR_BUDGETS: process.env.BURSAR_BUDGETS || JSON.stringify({ api: [[budget, 60]] }),
  }
}

/** Requests in a minute that each caller of the API may send to `dev`. */
const budget = 10_000

/** `running.json` is a file of an earlier version. */
const ours = ['postgres', 'postgres.new', 'postgres.log', 'server.log', 'mail', 'communities', 'storage', 'state.json', 'running.json', 'env']

/** Deletes everything that `dev` created, and nothing else in the folder or in an existing database. */
const throwAway = async (folder: string, own: Secret | undefined): Promise<void> => {
  if (own) {
    const content = await reached(contentOf(own))
    if (content !== 'empty') {
      const known = existsSync(stateFile(folder)) ? readState(folder).deployment_id : undefined
      if (content === 'other data' || content.deployment_id !== known)
        throw new Error(
          '--fresh deletes only data that dev created. The database of DATABASE_URL was filled by another program. Drop it yourself, or name another',
        )
      await dropDatabase(own)
    }
  }
  for (const name of ours) rmSync(join(folder, name), { recursive: true, force: true })
}

/** Migrates the database to this version. Refuses a database that is neither empty nor created by `dev` in this folder. */
const prepare = async (folder: string, state: State, config: Config, own: boolean, steps: Steps): Promise<void> => {
  const url = config.database_owner_url
  const content = await reached(contentOf(url))
  if (content === 'other data')
    throw new Error('the database of DATABASE_URL contains other data. Name an empty one, or one that does not exist: it will be created')
  if (content !== 'empty' && content.deployment_id !== state.deployment_id)
    throw new Error(
      own
        ? `the database of DATABASE_URL belongs to another Bursar, whose secrets are not in ${folder}. Name another, or run that one: ${bursar} serve`
        : `the secrets in ${folder} do not match its data. Start over with: ${bursar} dev --fresh`,
    )
  await createDatabase(url)
  try {
    const told = (done: number, of: number) => {
      // Without a terminal each step is a line, and a line for each migration would be too many.
      if (process.stderr.isTTY) steps.say(`migrating the database: ${done} of ${of}`)
      else if (done === 0) steps.say('migrating the database')
    }
    await migrate(url, 'sandbox', { clock: systemClock, log: openLog('silent'), login: config.database_url, told })
  } catch (error) {
    if (error instanceof DatabaseRefused)
      throw new Error(`the schema of the database does not match this version (${error.message}). Start over with: ${bursar} dev --fresh`, { cause: error })
    throw error
  }
  const now = await contentOf(url)
  if (typeof now === 'object') state.deployment_id = now.deployment_id
  writeState(folder, state)
}

const reached = async <T>(work: Promise<T>): Promise<T> => {
  try {
    return await work
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    throw new Error(
      `the database of DATABASE_URL cannot be used (${code ?? message}). Check that it is running and that the address is right. Without DATABASE_URL, dev starts its own`,
      { cause: error },
    )
  }
}

/** Writes a file of shell variables, so that commands from the documentation can be copied unchanged. */
const writeEnv = (folder: string, { api, token, products, checkout, team_checkout, webhook }: Made): string => {
  const variables = {
    BURSAR_API: api,
    BURSAR_TOKEN: token,
    PRODUCT: products.field_guide,
    PLAN: products.team_plan,
    CHECKOUT_URL: checkout.url,
    TEAM_CHECKOUT_URL: team_checkout.url,
    RECEIVER: webhook.receiver,
    WEBHOOK_SECRET: webhook.secret,
  }
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'`)
  const file = join(folder, 'env')
  writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  return file
}

/** Describes the sandbox in at most twelve lines: addresses, credentials and a command to try. */
const describe = (made: Made, env: string): string => {
  const facts = [
    ['API', `${made.api}  (reference: ${made.api}/docs)`],
    ['token', made.token],
    ['buy', `${made.checkout.url}  (Field guide, 29.00 USD)`],
    ['buy seats', `${made.team_checkout.url}  (Team plan, 5 seats)`],
    ['portal', `${made.portal.url}  (as ${made.portal.email}, once)`],
    ['webhooks', `${made.webhook.secret}  (to ${made.webhook.receiver})`],
    ['dashboard', `${made.dashboard}  (sign in as ${made.owner})`],
    ['mailbox', `${made.mailbox}  (here is the code of the sign-in)`],
  ]
  return [
    `Bursar is ready after ${(performance.now() / 1000).toFixed(1)} s, with an organization acme. Ctrl-C stops it, --fresh starts over.`,
    '',
    ...facts.map(([name, value]) => `  ${name!.padEnd(10)}${value}`),
    '',
    `Open one of these in a browser; or, in another shell: . ${relative('.', env)} && ${bursar} trigger customer.created && curl $RECEIVER/customer.created`,
  ].join('\n')
}
