#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { parseArgs } from 'node:util'
import { Usage } from './usage.ts'

const help = `bursar – commerce and access, self-hosted

  bursar dev [--fresh] [--dir <folder>]        a whole sandbox in one process: nothing to install, nothing to configure
  bursar init                                  write a .env for a local sandbox
  bursar migrate [--create]                    bring the database to this version
  bursar serve [--roles api,worker]            run
  bursar doctor                                look at everything that a deployment needs, and say what repairs what is wrong
  bursar backup --to <folder>                  everything, as it is at one moment, while others go on working
  bursar restore --from <folder> [--create]   into an empty database, which is then held
  bursar restore --release [--without <account>]   find what was charged after the backup, and let the database be served from
  bursar restore --settle <charge>             a person has seen to what was charged
  bursar upgrade --to <folder> | --no-backup   a backup, then migrate, then doctor
  bursar seed                                  a sandbox organization to play with
  bursar operator create --email <address>     the person who runs this deployment, with a token
  bursar operator open|close sign-up|organizations
  bursar operator open|close off-session --organization <slug>   may it charge customers who are not there
  bursar token create --organization <slug> --comment <text> --scopes <a,b> [--days <n>]
  bursar token list --organization <slug>
  bursar token revoke --organization <slug> --id <id>
  bursar client verify|unverify <client_id>    vouch for an OAuth app: people see it on the consent page
  bursar keys rotate                           sign identities with the next key from now on
  bursar keys rotate-licences                  sign licences for offline use with a new key in five minutes
  bursar audit verify                          prove that no record of who changed what was changed
  bursar listen <url> [--events a,b] [--after <n>]   forward events to your own server, signed
  bursar listen --print-secret                 the secret that they are signed with
  bursar trigger <kind>                        make something of this kind happen in the sandbox

  bursar import legacy <bundle.jsonl> --organization <slug>   an organization from before there were members

  bursar orders|subscriptions|customers export [--columns a,b] [--status a,b] [--product <id,id>]
      [--after <moment>] [--before <moment>] [--timezone <name>] [--out <file>]   all of them as a CSV file

  bursar payments connect                      your account at Stripe: STRIPE_SECRET_KEY, STRIPE_PUBLISHABLE_KEY, STRIPE_WEBHOOK_SECRET
  bursar payments status                       which account the money goes to

  bursar members status                        how far the member migration is, and what stands in its way
  bursar members rehearse [--out <file>]       what it would do, and nothing done; the whole plan as a CSV file
  bursar members prepare                       make the members (phase 1): nothing that is answered changes
  bursar members switch --yes                  show members from now on (phase 2)
  bursar members undo --yes                    take the last step back
  bursar members seal --yes                    for good
  bursar members map [--out <file>]            which member each seat holder has become, as a CSV file

  --env sandbox|production   instead of BURSAR_ENV
  --json                     for machines
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
      // Started often, and read anew each time: what was understood of the code is kept beside the packages.
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
  if (error.code === 'ERR_MODULE_NOT_FOUND') return `something is not installed or not built. Run: ./scripts/setup\n${error.message}`
  if (error.code === '3D000') return 'the database does not exist. Create it with: bursar migrate --create'
  if (error.code === 'EADDRINUSE') return 'the port is taken. Set BURSAR_LISTEN or BURSAR_ADMIN_LISTEN to another one.'
  return error.message
}
