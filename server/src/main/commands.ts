import { randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { isScope, scopes as everyScope, type Scope } from '@bursar/contract'
import { z } from 'zod'
import { rotateLicenceKeys } from '../modules/entitlements/index.ts'
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
import { bursar } from '../kernel/command-name.ts'
import { nearest } from '../kernel/nearest.ts'
import { nobody } from '../platform/audit/audit.ts'
import { listHeads, verifyChain } from '../platform/audit/audit.sql.ts'
import { systemClock } from '../platform/clock.ts'
import { readConfig } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { createDatabase, migrate, setSwitch } from '../platform/migrations/migrations.ts'
import type { Tx } from '../platform/postgres/postgres.ts'
import { openBar, openLateBar } from './bar.ts'
import { deedOf, openCommandAudit, withDatabase } from './database.ts'
import { needOrganization } from './organization.ts'
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

/** Writes the settings of a local sandbox with new secrets to `.env`. Fails if `.env` exists. */
export const init = (values: Values): void => {
  if (existsSync('.env')) throw new Usage('.env already exists and was not changed')
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
  print(
    values,
    { written: '.env' },
    `wrote .env: a sandbox on this machine. Keep BURSAR_PEPPERS and BURSAR_SEALING_KEYS: without them no token can be recognised and no webhook signed.\nNext: ${bursar} migrate --create`,
  )
}

export const runMigrate = async (values: Values): Promise<void> => {
  const config = readConfig(process.env)
  if (values.create && (await createDatabase(config.database_owner_url)) && !values.json) process.stdout.write('created the database\n')
  const bar = openLateBar()
  const applied = await migrate(config.database_owner_url, config.environment, {
    clock: systemClock,
    log: openLog('error'),
    login: config.database_url,
    told: bar.told,
  }).finally(() => bar.end())
  print(values, { applied }, applied.length === 0 ? 'the database is up to date' : `applied: ${applied.join(', ')}`)
}

const required = (value: string | undefined, flag: string): string => {
  if (!value) throw new Usage(`${flag} is needed`)
  return value
}

export const operator = async ([action, subject]: readonly string[], values: Values): Promise<void> => {
  if (action === 'create') {
    const email = z.email().safeParse(required(values.email, '--email')).data
    if (!email) throw new Usage(`--email takes an e-mail address, not ${values.email}`)
    return withDatabase('operator create', async ({ transact, platform }) => {
      const made = await transact(async (tx) => {
        if (await findUserByEmail(tx, email)) throw new Usage('a person with this address already exists')
        const user = await createUser(tx, { email, is_operator: true })
        return { user, ...(await issuePersonalToken(tx, platform, user.id, { comment: 'operator bootstrap', scopes: everyScope, expires_in: 90 * 24 * 3600 })) }
      })
      const token = made.secret.reveal()
      print(values, { user_id: made.user.id, token }, `operator ${email}\ntoken    ${token}\n\nThe token is shown once, acts as you, and expires in 90 days.`)
    })
  }
  if (action === 'sender') return (await import('./mails.ts')).sender(subject, values)
  if (action !== 'open' && action !== 'close') throw new Usage('operator takes create, open, close or sender')
  if (subject === 'off-session') {
    const slug = required(values.organization, '--organization')
    return withDatabase(`operator ${action} off-session`, async ({ db, transact }) => {
      const organization = await needOrganization(db, slug)
      await transact((tx) => allowOffSession(tx, organization, action === 'open'))
      const may = action === 'open' ? 'may charge' : 'may not charge'
      print(values, { organization: slug, off_session_charges_enabled: action === 'open' }, `${slug} ${may} customers who are not present`)
    })
  }
  const column = subject === 'sign-up' ? 'sign_up_open' : subject === 'organizations' ? 'organization_creation_open' : undefined
  if (!column) throw new Usage(`operator ${action} takes sign-up, organizations or off-session`)
  const config = readConfig(process.env)
  const recorder = await openCommandAudit(config)
  await setSwitch(config.database_owner_url, config.environment, column, action === 'open', {
    clock: systemClock,
    record: (tx) => recorder.record(tx, deedOf(`operator ${action} ${subject}`)),
  })
  print(values, { [column]: action === 'open' }, `${subject}: ${action === 'open' ? 'open to everyone' : 'closed'}`)
}

export const token = async ([action]: readonly string[], values: Values): Promise<void> => {
  const slug = required(values.organization, '--organization')
  return withDatabase(`token ${action}`, async ({ db, transact, platform }) => {
    const organization = await needOrganization(db, slug)
    if (action === 'list') {
      const tokens = await tokensOf(db, organization.id)
      const lines = tokens.map(
        (one) => `${one.id}  ${one.hint}  ${one.comment}  ${one.expires_at ? `until ${one.expires_at.toISOString().slice(0, 10)}` : 'never expires'}`,
      )
      return print(
        values,
        { tokens },
        lines.length === 0
          ? `${slug} has no tokens. Create one: ${bursar} token create --organization ${slug} --comment <text> --scopes <a,b>`
          : lines.join('\n'),
      )
    }
    if (action === 'revoke') {
      const id = required(values.id, '--id')
      const ids = `${bursar} token list --organization ${slug} shows the ids`
      if (!z.uuid().safeParse(id).success) throw new Usage(`--id takes the id of a token, not ${id}. ${ids}`)
      await transact(async (tx) => {
        if (!(await revokeTokenOf(tx, organization.id, id))) throw new Usage(`${slug} has no active token ${id}. ${ids}`)
      })
      return print(values, { revoked: id }, `revoked ${id}`)
    }
    if (action !== 'create') throw new Usage('token takes create, list or revoke')
    const wanted = required(values.scopes, '--scopes').split(',')
    const unknown = wanted.filter((scope) => !isScope(scope))
    if (unknown.length > 0) {
      const meant = unknown.flatMap((scope) => nearest(scope, everyScope) ?? [])
      throw new Usage(
        `unknown scopes: ${unknown.join(', ')}.${meant.length === 0 ? '' : ` Did you mean ${meant.join(', ')}?`} docs/guides/scopes.md shows how to find the scopes`,
      )
    }
    const comment = required(values.comment, '--comment')
    const days = values.days === undefined ? null : Number(values.days)
    if (days !== null && !(Number.isInteger(days) && days > 0 && days <= 3650))
      throw new Usage(`--days takes a whole number from 1 to 3650, not ${values.days}`)
    const { secret, token: made } = await transact((tx) =>
      issueOrganizationToken(tx, platform, organization.id, { comment, scopes: wanted as Scope[], expires_in: days === null ? null : days * 24 * 3600 }),
    )
    print(values, { id: made.id, token: secret.reveal() }, `${secret.reveal()}\n\nShown once. Keep it on your server.`)
  })
}

export const client = async ([action, client_id]: readonly string[], values: Values): Promise<void> => {
  if (action !== 'verify' && action !== 'unverify') throw new Usage('client takes verify or unverify')
  if (!client_id) throw new Usage(`client ${action} takes the client_id of an OAuth client`)
  return withDatabase(`client ${action}`, async ({ transact }) => {
    await transact(async (tx) => {
      if (!(await vouch(tx, client_id, action === 'verify'))) throw new Usage(`there is no client ${client_id}`)
    })
    print(
      values,
      { client_id, verified: action === 'verify' },
      action === 'verify' ? `${client_id} is shown as verified` : `${client_id} is shown as not verified`,
    )
  })
}

export const keys = async ([action]: readonly string[], values: Values): Promise<void> => {
  if (action === 'reseal') return (await import('./reseal.ts')).resealAll(values)
  if (action !== 'rotate' && action !== 'rotate-licences') throw new Usage('keys takes rotate, rotate-licences or reseal')
  return withDatabase(`keys ${action}`, async ({ transact, platform }) => {
    if (action === 'rotate-licences') {
      await transact((tx) => rotateLicenceKeys(tx, platform))
      return print(values, { rotated: true }, 'rotated: the new key signs licences in five minutes; earlier keys stay published')
    }
    await transact(async (tx) => {
      if ((await rotateKeys(tx, platform)) === 'too_soon')
        throw new Usage('the next key was published less than five minutes ago, and some servers may not have it yet. Try again in five minutes')
    })
    print(values, { rotated: true }, 'rotated: the next key signs within five seconds; the previous key stays published for two hours')
  })
}

/** Verifies every audit log from its first entry to its last. Exits with an error if an entry was changed or is missing. */
export const audit = async ([action]: readonly string[], values: Values): Promise<void> => {
  if (action !== 'verify') throw new Usage('audit takes verify')
  return withDatabase('audit verify', async ({ db }) => {
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
        `${broken_at === null ? 'whole ' : 'BROKEN'}  ${organization_id ?? 'no organization                     '}  ${entries} ${entries === 1 ? 'entry' : 'entries'}  ${broken_at === null ? head : `entry ${broken_at} was changed`}`,
    )
    print(
      values,
      { entries: all, logs },
      logs.length === 0
        ? 'the audit log is empty'
        : [...lines, '', `${all} entries, ${broken.length === 0 ? 'all unchanged' : `${broken.length} of ${logs.length} logs broken`}`].join('\n'),
    )
    if (broken.length > 0) process.exitCode = 1
  })
}

/** Creates sandbox data: one user, one organization, and one token with all scopes. Sandbox only. */
export const seed = (values: Values): Promise<void> =>
  withDatabase('seed', async ({ db, transact, platform }) => {
    if (platform.config.environment !== 'sandbox') throw new Usage('seed is for the sandbox only, and this is production')
    if (await findLivingOrganization(db, { slug: 'acme' })) throw new Usage('this sandbox is already seeded: the organization acme exists')
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

/** The owner of the initial organization of a sandbox. */
export const acmeOwner = 'owner@acme.example'

/** Creates the initial organization of a sandbox and its owner. */
export const createAcme = async (tx: Tx) => {
  const user = (await findUserByEmail(tx, acmeOwner)) ?? (await createUser(tx, { email: acmeOwner, is_operator: false }))
  const organization = await createOrganization(
    tx,
    { name: 'Acme', slug: 'acme', default_presentment_currency: 'usd', default_tax_behavior: 'location' },
    'sandbox',
  )
  await insertMembership(tx, organization.id, user.id, 'owner', tx.clock.wall())
  return organization
}
