import { hash, randomBytes } from 'node:crypto'
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join, relative, resolve } from 'node:path'
import { Secret } from '../kernel/secrets.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig, type Address, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { createDatabase, DatabaseRefused, dropDatabase, inhabitant, migrate } from '../platform/postgres/migrations.ts'
import { startEmbedded } from './embedded.ts'
import type { Made } from './furnish.ts'
import { run, signalled } from './serve.ts'
import { Usage } from './usage.ts'

interface Values {
  json?: boolean | undefined
  fresh?: boolean | undefined
  dir?: string | undefined
  env?: string | undefined
}

/**
 * A whole sandbox in one process, with something in it: database, API, worker, pages, a receiver of webhooks. What it
 * keeps lies in one folder; nothing of it runs on when this process ends.
 */
export const dev = async (values: Values): Promise<void> => {
  if (values.env !== undefined && values.env !== 'sandbox') throw new Usage('dev is a sandbox, and nothing else')
  const stopped = signalled()
  let reason: string | undefined
  void stopped.then((name) => (reason = name))
  const left = () => reason !== undefined
  const folder = resolve(values.dir ?? '.scratch/dev')
  const own = process.env.DATABASE_URL === undefined || process.env.DATABASE_URL === '' ? undefined : new Secret(process.env.DATABASE_URL)
  const closers: (() => unknown)[] = []
  try {
    closers.push(await claimFolder(folder))
    // Everything that can be wrong with the settings comes before anything is started or thrown away.
    const rough = settle(folder, { peppers: key(), sealing_keys: key() }, own ?? new Secret('postgres://localhost/bursar'), {})
    const listen = await free(rough.listen, 'BURSAR_LISTEN')
    const admin_listen = await free(rough.admin_listen, 'BURSAR_ADMIN_LISTEN')

    if (values.fresh) await throwAway(folder, own)
    mkdirSync(folder, { recursive: true })
    const state = readState(folder)
    // Reading all of our own code takes as long as the database takes to start: side by side.
    const code = Promise.all([import('./furnish.ts'), import('./receiver.ts'), import('./wire.ts')])
    code.catch(() => {}) // What is wrong is said where it is awaited.
    const embedded = own ? undefined : await startEmbedded(folder, 'bursar')
    if (embedded) closers.push(() => embedded.stop())
    const [{ furnish }, { openReceiver }] = await code
    const receiver = await openReceiver(state.receiver_port ?? 0)
    closers.push(() => receiver.close())
    state.receiver_port = receiver.port
    if (left()) return
    const config = settle(folder, state, own ?? new Secret(embedded!.url), { listen, admin_listen })
    await prepare(folder, state, config, own !== undefined)
    if (left()) return

    await run({
      config,
      log: openLog(config.log_level, createWriteStream(join(folder, 'server.log'))),
      roles: ['api', 'worker'],
      stopped: embedded ? Promise.race([stopped, embedded.lost.then(giveUp)]) : stopped,
      serving: async () => {
        const made = await furnish({ config, local: `http://${textOf(listen)}`, token: state.token, receiver })
        writeState(folder, { ...state, token: made.token })
        const env = writeEnv(folder, made)
        say(values.json ? JSON.stringify({ ...made, env, ready_ms: Math.round(performance.now()) }) : describe(made, env))
        receiver.tell()
      },
    })
  } finally {
    for (const close of closers.toReversed()) await close()
  }
}

const giveUp = (): string => {
  process.stderr.write('bursar: the database has ended, and so does everything else. Why is in postgres.log, beside its data\n')
  process.exitCode = 1
  return 'the database ended'
}

const say = (text: string) => void process.stdout.write(`${text}\n`)
const key = () => `1:${randomBytes(32).toString('base64')}`

/** One at a time in a folder: two would share a database, and one could throw away what the other uses. */
const claimFolder = async (folder: string): Promise<() => void> => {
  // A name in the kernel's own space: it goes with the process, and leaves no file behind that could lie.
  if (process.platform !== 'linux') return () => {}
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`it runs already, with the data in ${folder}. Stop that one first, or keep this one apart: pnpm bursar dev --dir <folder>`)
          : error,
      ),
    )
    server.listen(`\0bursar-dev-${hash('sha256', folder).slice(0, 32)}`, resolve)
  })
  return () => void server.close()
}

/** The address, with a port that is free now: any, where none was asked for. */
const free = ({ host, port }: Address, setting: string): Promise<Address> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new Error(`port ${port} is taken, perhaps by another Bursar. Stop that, or choose another: ${setting}=${host}:${port + 100} pnpm bursar dev`)
          : error,
      ),
    )
    probe.listen(port, host, () => {
      const found = (probe.address() as AddressInfo).port
      probe.close(() => resolve({ host, port: found }))
    })
  })

interface State {
  peppers: string
  sealing_keys: string
  /** Whose secrets these are: with another database they open nothing. */
  deployment_id?: string
  /** Where webhooks are received: the same at every start, where it is free. */
  receiver_port?: number
  /** Kept, unlike any other token, so that a shell that knows it need not be told again. */
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

const textOf = ({ host, port }: Address) => `${host.includes(':') ? `[${host}]` : host}:${port}`

/** The settings: those of the environment, save for what must fit together here. */
const settle = (folder: string, { peppers, sealing_keys }: State, database: Secret, found: { listen?: Address; admin_listen?: Address }): Config => {
  return readConfig({
    ...process.env,
    BURSAR_ENV: 'sandbox',
    BURSAR_DATABASE_URL: database.reveal(),
    BURSAR_DATABASE_OWNER_URL: '',
    BURSAR_PEPPERS: peppers,
    BURSAR_SEALING_KEYS: sealing_keys,
    BURSAR_PUBLIC_URL: `http://localhost:${found.listen?.port ?? 0}`,
    BURSAR_AUTH_URL: '',
    BURSAR_SMTP_URL: '',
    BURSAR_MAIL_DIR: join(folder, 'mail'),
    BURSAR_COMMUNITIES_DIR: join(folder, 'communities'),
    // Who wants to try a store of their own has named it.
    ...(process.env.BURSAR_S3_BUCKET ? {} : { BURSAR_STORAGE_DIR: join(folder, 'storage') }),
    BURSAR_EGRESS_LOOPBACK: 'true',
    ...(found.listen ? { BURSAR_LISTEN: textOf(found.listen) } : {}),
    ...(found.admin_listen ? { BURSAR_ADMIN_LISTEN: textOf(found.admin_listen) } : {}),
  })
}

const ours = ['postgres', 'postgres.new', 'postgres.log', 'server.log', 'mail', 'communities', 'storage', 'state.json', 'env']

/** Removes everything of ours, and nothing else that may lie in the folder or in a database of one's own. */
const throwAway = async (folder: string, own: Secret | undefined): Promise<void> => {
  if (own) {
    const lives = await reached(inhabitant(own))
    if (lives !== 'nobody') {
      const known = existsSync(stateFile(folder)) ? readState(folder).deployment_id : undefined
      if (lives === 'somebody else' || lives.deployment_id !== known)
        throw new Error(
          '--fresh throws away only what dev made, and the database of DATABASE_URL was filled by somebody else. Drop it yourself, or name another',
        )
      await dropDatabase(own)
    }
  }
  for (const name of ours) rmSync(join(folder, name), { recursive: true, force: true })
}

/** Brings the database to this version, if it is empty or was made here. */
const prepare = async (folder: string, state: State, config: Config, own: boolean): Promise<void> => {
  const url = config.database_owner_url
  const lives = await reached(inhabitant(url))
  if (lives === 'somebody else')
    throw new Error('the database of DATABASE_URL holds something else. Name one that is empty or does not exist: it will be created')
  if (lives !== 'nobody' && lives.deployment_id !== state.deployment_id)
    throw new Error(
      own
        ? `the database of DATABASE_URL belongs to another Bursar, whose secrets are not in ${folder}. Name another, or run that one: pnpm bursar serve`
        : `the secrets in ${folder} are not those of its data. Start over with: pnpm bursar dev --fresh`,
    )
  await createDatabase(url)
  try {
    await migrate(url, 'sandbox', { clock: systemClock, log: openLog('silent'), login: config.database_url })
  } catch (error) {
    if (error instanceof DatabaseRefused)
      throw new Error(`the database does not fit this version (${error.message}). Start over with: pnpm bursar dev --fresh`, { cause: error })
    throw error
  }
  const now = await inhabitant(url)
  if (typeof now === 'object') state.deployment_id = now.deployment_id
  writeState(folder, state)
}

const reached = async <T>(work: Promise<T>): Promise<T> => {
  try {
    return await work
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    throw new Error(
      `the database of DATABASE_URL cannot be used (${code ?? message}). Is it running, and is the address right? Without DATABASE_URL dev brings its own`,
      { cause: error },
    )
  }
}

/** What was made, for a shell to read: commands can then be copied as they stand. */
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

/** At most twelve lines: where it is, what opens it, and what to try. */
const describe = (made: Made, env: string): string => {
  const facts = [
    ['API', made.api],
    ['token', made.token],
    ['buy', `${made.checkout.url}  (Field guide, 29.00 USD)`],
    ['buy seats', `${made.team_checkout.url}  (Team plan, 5 seats)`],
    ['portal', `${made.portal.url}  (as ${made.portal.email}, once)`],
    ['webhooks', `${made.webhook.secret}  (to ${made.webhook.receiver})`],
    ['mailbox', `${made.mailbox}  (sign in at /login as ${made.owner})`],
  ]
  return [
    `Bursar is ready after ${(performance.now() / 1000).toFixed(1)} s, with an organization acme. Ctrl-C stops it, --fresh starts over.`,
    '',
    ...facts.map(([name, value]) => `  ${name!.padEnd(10)}${value}`),
    '',
    `Open one of these in a browser; or, in another shell: . ${relative('.', env)} && pnpm bursar trigger customer.created && curl $RECEIVER/customer.created`,
  ].join('\n')
}
