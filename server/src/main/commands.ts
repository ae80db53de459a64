import { randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { isScope, scopes as everyScope, type Scope } from '@bursar/contract'
import { z } from 'zod'
import { Hasher, Sealer } from '../kernel/secrets.ts'
import { rotateLicenceKeys } from '../modules/entitlements/index.ts'
import type { Platform } from '../modules/handlers.ts'
import {
  createUser,
  findUserByEmail,
  issueOrganizationToken,
  issuePersonalToken,
  revokeTokenOf,
  rotateKeys,
  tokensOf,
  vouch,
} from '../modules/identity/index.ts'
import { allowOffSession, createOrganization, findLivingOrganization, insertMembership } from '../modules/organizations/index.ts'
import { nobody } from '../platform/audit/audit.ts'
import { listHeads, verifyChain } from '../platform/audit/audit.sql.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { checkStamp, createDatabase, migrate, setSwitch } from '../platform/postgres/migrations.ts'
import { openPostgres, type Db, type Transact, type Tx } from '../platform/postgres/postgres.ts'
import { openBar } from './bar.ts'
import { print } from './print.ts'
import { Usage } from './usage.ts'

type Values = {
  json?: boolean | undefined
  create?: boolean | undefined
  email?: string | undefined
  organization?: string | undefined
  comment?: string | undefined
  scopes?: string | undefined
  days?: string | undefined
  id?: string | undefined
}

/** Writes the settings of a local sandbox, with secrets of its own. An existing file is left as it is. */
export const init = (): void => {
  if (existsSync('.env')) throw new Usage('.env exists already; it is left as it is')
  const lines = [
    'BURSAR_ENV=sandbox',
    `BURSAR_DATABASE_URL=postgres://${userInfo().username}@127.0.0.1:5432/bursar_sandbox`,
    'BURSAR_REDIS_URL=redis://127.0.0.1:6379',
    `BURSAR_PEPPERS=1:${randomBytes(32).toString('base64')}`,
    `BURSAR_SEALING_KEYS=1:${randomBytes(32).toString('base64')}`,
    'BURSAR_PUBLIC_URL=http://localhost:4100',
    'BURSAR_MAIL_DIR=.scratch/mail',
    'BURSAR_COMMUNITIES_DIR=.scratch/communities',
    'BURSAR_STORAGE_DIR=.scratch/storage',
    'BURSAR_EGRESS_LOOPBACK=true',
  ]
  writeFileSync('.env', `${lines.join('\n')}\n`, { mode: 0o600 })
  process.stdout.write(
    'wrote .env: a sandbox on this machine. Keep BURSAR_PEPPERS and BURSAR_SEALING_KEYS: without them no token can be recognised and no webhook signed.\n',
  )
}

export const runMigrate = async (values: Values): Promise<void> => {
  const config = readConfig(process.env)
  if (values.create && (await createDatabase(config.database_owner_url))) process.stdout.write('created the database\n')
  const applied = await migrate(config.database_owner_url, config.environment, { clock: systemClock, log: openLog('error'), login: config.database_url })
  print(values, { applied }, applied.length === 0 ? 'the database is up to date' : `applied: ${applied.join(', ')}`)
}

export const withDatabase = async <T>(
  work: (means: { db: Db; transact: Transact; platform: Platform }) => Promise<T>,
  config: Config = readConfig(process.env),
): Promise<T> => {
  const log = openLog('error')
  const postgres = openPostgres(config.database_url, 'bursar_api', { max: 2, clock: systemClock, log })
  try {
    const { discretion } = await import('./wire.ts')
    await checkStamp(postgres.db, config.environment)
    return await work({
      db: postgres.db,
      transact: postgres.transact,
      platform: { config, log, clock: systemClock, hasher: new Hasher(config.peppers), sealer: new Sealer(config.sealing_keys), discretion },
    })
  } finally {
    await postgres.close()
  }
}

const required = (value: string | undefined, flag: string): string => {
  if (!value) throw new Usage(`${flag} is needed`)
  return value
}

export const operator = async ([action, subject]: readonly string[], values: Values): Promise<void> => {
  if (action === 'create') {
    const email = z.email().safeParse(required(values.email, '--email')).data
    if (!email) throw new Usage('--email takes an e-mail address')
    return withDatabase(async ({ transact, platform }) => {
      const made = await transact(async (tx) => {
        if (await findUserByEmail(tx, email)) throw new Usage('there is already a person with this address')
        const user = await createUser(tx, { email, is_operator: true })
        return { user, ...(await issuePersonalToken(tx, platform, user.id, { comment: 'operator bootstrap', scopes: everyScope, expires_in: 90 * 24 * 3600 })) }
      })
      const token = made.secret.reveal()
      print(values, { user_id: made.user.id, token }, `operator ${email}\ntoken    ${token}\n\nThe token is shown once, acts as you, and expires in 90 days.`)
    })
  }
  if (action !== 'open' && action !== 'close') throw new Usage('operator takes create, open or close')
  if (subject === 'off-session') {
    const slug = required(values.organization, '--organization')
    return withDatabase(async ({ db, transact }) => {
      const organization = await findLivingOrganization(db, { slug })
      if (!organization) throw new Usage(`there is no organization ${slug}`)
      await transact((tx) => allowOffSession(tx, organization, action === 'open'))
      const may = action === 'open' ? 'may charge' : 'does not charge'
      print(values, { organization: slug, off_session_charges_enabled: action === 'open' }, `${slug} ${may} customers who are not there`)
    })
  }
  const column = subject === 'sign-up' ? 'sign_up_open' : subject === 'organizations' ? 'organization_creation_open' : undefined
  if (!column) throw new Usage(`operator ${action} takes sign-up, organizations or off-session`)
  const config = readConfig(process.env)
  await setSwitch(config.database_owner_url, config.environment, column, action === 'open')
  print(values, { [column]: action === 'open' }, `${subject}: ${action === 'open' ? 'open to everyone' : 'closed'}`)
}

export const token = async ([action]: readonly string[], values: Values): Promise<void> => {
  const slug = required(values.organization, '--organization')
  return withDatabase(async ({ db, transact, platform }) => {
    const organization = await findLivingOrganization(db, { slug })
    if (!organization) throw new Usage(`there is no organization ${slug}`)
    if (action === 'list') {
      const tokens = await tokensOf(db, organization.id)
      const lines = tokens.map(
        (one) => `${one.id}  ${one.hint}  ${one.comment}  ${one.expires_at ? `until ${one.expires_at.toISOString().slice(0, 10)}` : 'never expires'}`,
      )
      return print(
        values,
        { tokens },
        lines.length === 0 ? `${slug} has no tokens. Make one: bursar token create --organization ${slug} --comment <text> --scopes <a,b>` : lines.join('\n'),
      )
    }
    if (action === 'revoke') {
      const id = required(values.id, '--id')
      if (!(await transact((tx) => revokeTokenOf(tx, organization.id, id)))) throw new Usage(`${slug} has no live token ${id}`)
      return print(values, { revoked: id }, `revoked ${id}`)
    }
    if (action !== 'create') throw new Usage('token takes create, list or revoke')
    const wanted = required(values.scopes, '--scopes').split(',')
    const unknown = wanted.filter((scope) => !isScope(scope))
    if (unknown.length > 0) throw new Usage(`unknown scopes: ${unknown.join(', ')}`)
    const comment = required(values.comment, '--comment')
    const days = values.days === undefined ? null : Number(values.days)
    if (days !== null && !(Number.isInteger(days) && days > 0 && days <= 3650)) throw new Usage('--days takes a whole number from 1 to 3650')
    const { secret, token: made } = await transact((tx) =>
      issueOrganizationToken(tx, platform, organization.id, { comment, scopes: wanted as Scope[], expires_in: days === null ? null : days * 24 * 3600 }),
    )
    print(values, { id: made.id, token: secret.reveal() }, `${secret.reveal()}\n\nShown once. Keep it on your server.`)
  })
}

export const client = async ([action, client_id]: readonly string[], values: Values): Promise<void> => {
  if (action !== 'verify' && action !== 'unverify') throw new Usage('client takes verify or unverify')
  if (!client_id) throw new Usage(`client ${action} takes the client_id of an OAuth client`)
  return withDatabase(async ({ transact }) => {
    if (!(await transact((tx) => vouch(tx, client_id, action === 'verify')))) throw new Usage(`there is no client ${client_id}`)
    print(
      values,
      { client_id, verified: action === 'verify' },
      action === 'verify' ? `${client_id} is shown as verified` : `${client_id} is shown as not verified`,
    )
  })
}

export const keys = async ([action]: readonly string[], values: Values): Promise<void> => {
  if (action !== 'rotate' && action !== 'rotate-licences') throw new Usage('keys takes rotate or rotate-licences')
  return withDatabase(async ({ transact, platform }) => {
    if (action === 'rotate-licences') {
      await transact((tx) => rotateLicenceKeys(tx, platform))
      return print(values, { rotated: true }, 'rotated: the new key signs licences in five minutes; those before stay published')
    }
    if ((await transact((tx) => rotateKeys(tx, platform))) === 'too_soon')
      throw new Usage('the next key was published less than five minutes ago, and others may not have seen it yet: try again then')
    print(values, { rotated: true }, 'rotated: the next key signs within five seconds; the one before stays published for two hours')
  })
}

/** Recomputes every log of who changed what, from its first entry to its last, and ends with an error where one is not what it was. */
export const audit = async ([action]: readonly string[], values: Values): Promise<void> => {
  if (action !== 'verify') throw new Usage('audit takes verify')
  return withDatabase(async ({ db }) => {
    const logs = []
    const heads = await listHeads(db)
    const all = heads.reduce((sum, { sequence }) => sum + sequence, 0)
    const bar = openBar(all)
    let before = 0
    for (const head of heads) {
      const broken_at = await verifyChain(db, head, (done) => bar.show(before + done))
      before += head.sequence
      logs.push({
        organization_id: head.organization_id === nobody ? null : head.organization_id,
        entries: head.sequence,
        head: head.hash,
        broken_at: broken_at ?? null,
      })
    }
    bar.end()
    const broken = logs.filter(({ broken_at }) => broken_at !== null)
    const lines = logs.map(
      ({ organization_id, entries, head, broken_at }) =>
        `${broken_at === null ? 'whole ' : 'BROKEN'}  ${organization_id ?? 'of no organization                  '}  ${entries} ${entries === 1 ? 'entry' : 'entries'}  ${broken_at === null ? head : `entry ${broken_at} is not what was written`}`,
    )
    print(
      values,
      { entries: all, logs },
      logs.length === 0
        ? 'the audit log is empty'
        : [...lines, '', `${all} entries, ${broken.length === 0 ? 'all as they were written' : `${broken.length} of ${logs.length} logs broken`}`].join('\n'),
    )
    if (broken.length > 0) process.exitCode = 1
  })
}

/** A small world to play with: one person, one organization, one token that may do everything. Sandbox only. */
export const seed = (values: Values): Promise<void> =>
  withDatabase(async ({ db, transact, platform }) => {
    if (platform.config.environment !== 'sandbox') throw new Usage('seed fills a sandbox, and this is production')
    if (await findLivingOrganization(db, { slug: 'acme' })) throw new Usage('this sandbox is seeded already: the organization acme exists')
    const made = await transact(async (tx) => {
      const organization = await createAcme(tx)
      return { organization, ...(await issueOrganizationToken(tx, platform, organization.id, { comment: 'seed', scopes: everyScope, expires_in: null })) }
    })
    const token = made.secret.reveal()
    print(
      values,
      { organization_id: made.organization.id, email: acmeOwner, token },
      `organization acme (${made.organization.id})\nsign in as   ${acmeOwner}\ntoken        ${token}\npages        ${new URL('/login', platform.config.auth_url).href} (the code lies in the mailbox: ${new URL('/mailbox', platform.config.auth_url).href})\n\ncurl -H "Authorization: Bearer ${token}" ${new URL('/v1/organizations/', platform.config.public_url).href}`,
    )
  })

/** Who owns the organization that sandboxes begin with. */
export const acmeOwner = 'owner@acme.example'

/** The organization that sandboxes begin with, and its owner. */
export const createAcme = async (tx: Tx) => {
  const user = (await findUserByEmail(tx, acmeOwner)) ?? (await createUser(tx, { email: acmeOwner, is_operator: false }))
  const organization = await createOrganization(
    tx,
    { name: 'Acme', slug: 'acme', default_presentment_currency: 'usd', default_tax_behavior: 'location' },
    'sandbox',
  )
  await insertMembership(tx, organization.id, user.id, 'owner', tx.clock.business())
  return organization
}
