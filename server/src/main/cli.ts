#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { Usage } from './usage.ts'

const help = `bursar – commerce and access, self-hosted

  bursar dev [--fresh] [--dir <folder>]        a complete sandbox in one process, without setup
  bursar init                                  write a .env for a local sandbox
  bursar migrate [--create]                    migrate the database to this version
  bursar serve [--roles api,worker]            run the server
  bursar doctor                                check everything that a deployment needs, and print a repair for each failure
  bursar backup --to <folder>                  back up one snapshot of all data while the server runs
  bursar restore --from <folder> [--create]   restore into an empty database, which is then held
  bursar restore --release [--without <account>]   find charges after the backup, and release the held database
  bursar restore --settle <charge>             mark an unmatched charge as settled by a person
  bursar upgrade --to <folder> | --no-backup   back up, then migrate, then run doctor
  bursar seed                                  create a sample organization in the sandbox
  bursar operator create --email <address>     create the operator of this deployment, with a token
  bursar operator open|close sign-up|organizations
  bursar operator open|close off-session --organization <slug>   allow or forbid charges without the customer present
  bursar token create --organization <slug> --comment <text> --scopes <a,b> [--days <n>]
  bursar token list --organization <slug>
  bursar token revoke --organization <slug> --id <id>
  bursar client verify|unverify <client_id>    mark an OAuth app as verified on the consent page, or not
  bursar keys rotate                           sign ID tokens with the next key from now on
  bursar keys rotate-licences                  sign licences for offline use with a new key in five minutes
  bursar keys reseal                           seal every stored secret with the newest sealing key; then the old key can be removed
  bursar audit verify                          verify the hash chain of the audit log
  bursar listen <url> [--events a,b] [--after <n>]   forward events to your own server, signed
  bursar listen --print-secret                 print the secret that signs these events
  bursar trigger <kind>                        create data in the sandbox that emits this event

  bursar import legacy <bundle.jsonl> --organization <slug>   import an organization of the legacy member model

  bursar orders|subscriptions|customers export [--columns a,b] [--status a,b] [--product <id,id>]
      [--after <moment>] [--before <moment>] [--timezone <name>] [--out <file>]   export all of them as a CSV file

  bursar payments connect --email <address>    connect your Stripe account: STRIPE_SECRET_KEY, STRIPE_PUBLISHABLE_KEY, STRIPE_WEBHOOK_SECRET;
                                               signs you in with a code from your e-mail
  bursar payments status                       show the account that receives payments

  bursar members status                        show the progress of the member migration, and its problems
  bursar members rehearse [--out <file>]       dry run without changes; --out writes the complete plan as a CSV file
  bursar members prepare                       create the members (phase 1); API answers do not change
  bursar members switch --yes                  show members in API answers (phase 2)
  bursar members undo --yes                    undo the last step
  bursar members seal --yes                    complete the migration; cannot be undone
  bursar members map [--out <file>]            write the member of each seat holder as a CSV file

  --env sandbox|production   instead of BURSAR_ENV
  --json                     print JSON
  --api <url> --token <token>   for listen, trigger, export, payments and members; else BURSAR_API and BURSAR_TOKEN
`

const read = () =>
  parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      json: { type: 'boolean' },
      create: { type: 'boolean' },
      fresh: { type: 'boolean' },
      dir: { type: 'string' },
      env: { type: 'string' },
      roles: { type: 'string', default: 'api,worker' },
      email: { type: 'string' },
      organization: { type: 'string' },
      comment: { type: 'string' },
      scopes: { type: 'string' },
      days: { type: 'string' },
      id: { type: 'string' },
      api: { type: 'string' },
      token: { type: 'string' },
      events: { type: 'string' },
      after: { type: 'string' },
      'print-secret': { type: 'boolean' },
      columns: { type: 'string' },
      status: { type: 'string' },
      product: { type: 'string' },
      before: { type: 'string' },
      timezone: { type: 'string' },
      out: { type: 'string' },
      yes: { type: 'boolean' },
      to: { type: 'string' },
      from: { type: 'string' },
      release: { type: 'boolean' },
      without: { type: 'string', multiple: true },
      settle: { type: 'string' },
      'no-backup': { type: 'boolean' },
    },
  })

const main = async (): Promise<void> => {
  const { values, positionals } = read()
  const [command, ...rest] = positionals
  if (values.help || command === undefined) return void process.stdout.write(help)
  if (values.env !== undefined) process.env.BURSAR_ENV = values.env
  switch (command) {
    case 'dev':
      // `dev` is started often. The compile cache beside the packages makes each start faster.
      enableCompileCache(new URL('../../../node_modules/.cache/bursar', import.meta.url).pathname)
      return (await import('./dev.ts')).dev(values)
    case 'init':
      return (await import('./commands.ts')).init()
    case 'migrate':
      return (await import('./commands.ts')).runMigrate(values)
    case 'serve': {
      const roles = values.roles.split(',')
      const unknown = roles.find((role) => role !== 'api' && role !== 'worker')
      if (unknown !== undefined) throw new Usage(`--roles takes api, worker or both, not ${unknown}`)
      return (await import('./serve.ts')).serve(roles as ('api' | 'worker')[])
    }
    case 'doctor':
      return (await import('./doctor.ts')).doctor(values)
    case 'backup':
      return (await import('./backups.ts')).backup(values)
    case 'restore':
      return (await import('./backups.ts')).restore(values)
    case 'upgrade':
      return (await import('./backups.ts')).upgrade(values)
    case 'seed':
      return (await import('./commands.ts')).seed(values)
    case 'operator':
      return (await import('./commands.ts')).operator(rest, values)
    case 'token':
      return (await import('./commands.ts')).token(rest, values)
    case 'client':
      return (await import('./commands.ts')).client(rest, values)
    case 'keys':
      return (await import('./commands.ts')).keys(rest, values)
    case 'audit':
      return (await import('./commands.ts')).audit(rest, values)
    case 'listen':
      return (await import('./listen.ts')).listen(rest, values)
    case 'trigger':
      return (await import('./listen.ts')).trigger(rest, values)
    case 'import':
      return (await import('./import.ts')).importFile(rest, values)
    case 'orders':
    case 'subscriptions':
    case 'customers':
      return (await import('./export.ts')).exportFile(command, rest, values)
    case 'payments':
      return (await import('./payments.ts')).payments(rest, values)
    case 'members':
      return (await import('./members.ts')).members(rest, values)
    default:
      throw new Usage(`there is no command ${command}; bursar --help lists them`)
  }
}

try {
  await main()
} catch (error) {
  const known =
    error instanceof Usage ||
    (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') ||
    ['ConfigurationRefused', 'DatabaseRefused'].includes((error as Error).constructor?.name)
  process.stderr.write(`bursar: ${known || !(error instanceof Error) ? (error as Error).message : explain(error)}\n`)
  process.exitCode = error instanceof Usage || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') ? 2 : 1
}

function explain(error: Error & { code?: string }): string {
  if (error.code === 'ECONNREFUSED') return 'the database does not answer. Is PostgreSQL running, and is BURSAR_DATABASE_URL right?'
  if (error.code === 'ERR_MODULE_NOT_FOUND') return `a package is not installed or not built. Run: ./scripts/setup\n${error.message}`
  if (error.code === '28P01' || error.code === '28000') return `the database rejects the login of BURSAR_DATABASE_URL: ${error.message}`
  if (error.code === '42P01' || error.code === '22023') return `the database is not migrated. Run: bursar migrate\n${error.message}`
  if (error.code === '3D000') return 'the database does not exist. Create it with: bursar migrate --create'
  if (error.code === 'EADDRINUSE') return 'the port is in use. Set BURSAR_LISTEN or BURSAR_ADMIN_LISTEN to another one.'
  return error.message
}
