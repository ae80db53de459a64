import { Option, type Command } from 'commander'

/** Flags and arguments as a command receives them. Each handler declares the ones that it reads. */
type Handler = (positionals: readonly string[], values: Record<string, never>, program: Command) => unknown

export interface Leaf {
  /** The arguments of the command, such as `<client_id>` or `[url]`. */
  readonly takes?: string
  readonly says: string
  readonly flags?: readonly Option[]
  /** Lines of help after the list of flags. */
  readonly more?: string
  readonly settings?: 'server' | 'api'
  /** Loads the code of the command and runs it. Nothing heavy is imported before the command is known. */
  readonly run: Handler
}

const flag = (text: string, says: string, allowed?: readonly string[]): Option => {
  const one = new Option(text, says)
  return allowed ? one.choices(allowed) : one
}
const needed = (text: string, says: string): Option => flag(text, says).makeOptionMandatory()
/** A flag that can be given several times. */
const repeated = (text: string, says: string): Option =>
  flag(text, says).argParser((value: string, before: readonly string[] | undefined) => [...(before ?? []), value])
export const hidden = (text: string, says: string): Option => flag(text, says).hideHelp()

const json = flag('--json', 'print JSON')
const env = flag('--env <environment>', 'instead of BURSAR_ENV', ['sandbox', 'production'])
const dir = flag('--dir <folder>', 'use the settings of the sandbox that bursar dev runs in this folder')
const create = flag('--create', 'create the database if it does not exist')
const ofOrganization = flag('--organization <slug>', 'only this organization')
const inOrganization = needed('--organization <slug>', 'the organization')
const yes = flag('--yes', 'confirm')
const out = flag('--out <file>', 'write to a file instead of standard output; an existing file is replaced')

/** Settings of a command that works on the database. */
const server = [env, json]
/** Settings of a command that can also work on the running sandbox of `bursar dev`. */
const local = [env, dir, json]
const door = [
  flag('--api <url>', 'the address of the API, instead of BURSAR_API'),
  flag('--token <token>', 'a token of the organization, instead of BURSAR_TOKEN'),
]
const remote = [...door, dir, json]

const exporting = (what: string, filters: readonly Option[]): Record<string, Leaf> => ({
  export: {
    says: `export all ${what} as a CSV file`,
    flags: [...filters, out, ...remote],
    more: `Example: bursar ${what} export --columns created_at,status > ${what}.csv`,
    settings: 'api',
    run: async (rest, values) => (await import('./export.ts')).exportFile(what, ['export', ...rest], values),
  },
})
const filters = (what: string) => [
  flag('--columns <a,b>', 'only these columns, in this order'),
  flag('--status <a,b>', `only ${what} with one of these statuses`),
  flag('--product <id,id>', `only ${what} of these products`),
  flag('--after <moment>', `only ${what} after this moment, such as 2026-01-01T00:00:00Z`),
  flag('--before <moment>', `only ${what} before this moment`),
  flag('--timezone <name>', 'time zone of the dates, such as Europe/Vienna'),
]

const operator = (verb: 'open' | 'close'): Leaf => ({
  takes: '<what>',
  says: `${verb === 'open' ? 'allow' : 'forbid'} sign-up, new organizations, or charges without the customer present`,
  flags: [flag('--organization <slug>', 'the organization, for off-session'), ...local],
  more: `What: sign-up, organizations, or off-session with --organization <slug>`,
  settings: 'server',
  run: async (rest, values) => (await import('./commands.ts')).operator([verb, ...rest], values),
})

const token = (verb: string, says: string, flags: readonly Option[] = []): Leaf => ({
  says,
  flags: [inOrganization, ...flags, ...local],
  settings: 'server',
  run: async (_, values) => (await import('./commands.ts')).token([verb], values),
})

const client = (verb: string, says: string): Leaf => ({
  takes: '<client_id>',
  says,
  flags: local,
  settings: 'server',
  run: async (rest, values) => (await import('./commands.ts')).client([verb, ...rest], values),
})

const keys = (verb: string, says: string): Leaf => ({
  says,
  flags: local,
  settings: 'server',
  run: async (_, values) => (await import('./commands.ts')).keys([verb], values),
})

const members = (verb: string, says: string, flags: readonly Option[] = []): Leaf => ({
  says,
  flags: [...flags, ...remote],
  settings: 'api',
  run: async (_, values) => (await import('./members.ts')).members([verb], values),
})

interface Group {
  readonly says: string
  readonly more?: string
  readonly commands: Record<string, Leaf>
}

/** All commands, in the groups of `bursar --help`. */
export const commands: Record<string, Record<string, Leaf | Group>> = {
  'Develop:': {
    dev: {
      says: 'run a complete sandbox in one process, without setup',
      flags: [
        flag('--fresh', 'delete the data of the last sandbox first'),
        flag('--dir <folder>', 'folder of its data (default: .scratch/dev)'),
        hidden('--env <environment>', 'sandbox only'),
        json,
      ],
      run: async (_, values) => (await import('./dev.ts')).dev(values),
    },
    listen: {
      takes: '[url]',
      says: 'print events as they occur, and forward them to your own server, signed',
      flags: [
        flag('--events <a,b>', 'only these event types'),
        flag('--after <n>', 'also earlier events: those after this sequence number'),
        flag('--print-secret', 'print the secret that signs forwarded events, and exit'),
        ...remote,
      ],
      more: 'Examples: bursar listen\n          bursar listen http://localhost:3000/hooks --events order.paid',
      settings: 'api',
      run: async (rest, values) => (await import('./listen.ts')).listen(rest, values),
    },
    trigger: {
      takes: '[kind]',
      says: 'cause an event in the sandbox by the operations that emit it',
      flags: [
        repeated('--override <path=value>', 'another value of a request, such as product.name=Poster; can be repeated'),
        flag('--list', 'list every kind, with the objects that can be overridden'),
        ...remote,
      ],
      more: 'Example: bursar trigger order.paid --override product.prices.0.price_amount=4200',
      settings: 'api',
      run: async (rest, values) => (await import('./trigger.ts')).trigger(rest, values),
    },
    api: {
      takes: '<method> <path>',
      says: 'send one request to the API, and print the answer',
      flags: [flag('--data <json>', 'the body of the request'), ...remote],
      more: `Example: bursar api POST /v1/customers/ --data '{"email": "ada@example.com"}'`,
      settings: 'api',
      run: async (rest, values) => (await import('./api.ts')).api(rest, values),
    },
    init: { says: 'write a .env for a local sandbox', flags: [json], run: async (_, values) => (await import('./commands.ts')).init(values) },
    seed: { says: 'create a sample organization in the sandbox', flags: server, run: async (_, values) => (await import('./commands.ts')).seed(values) },
  },
  'Run a deployment:': {
    migrate: {
      says: 'migrate the database to this version',
      flags: [create, ...server],
      run: async (_, values) => (await import('./commands.ts')).runMigrate(values),
    },
    serve: {
      says: 'run the server; its log is JSON',
      flags: [flag('--roles <api,worker>', 'run only one of the two').default('api,worker'), env, hidden('--json', 'print JSON')],
      run: async (_, values) => (await import('./serve.ts')).serveRoles(values),
    },
    doctor: {
      says: 'check everything that a deployment needs, and print a repair for each failure',
      flags: local,
      settings: 'server',
      run: async (_, values) => (await import('./doctor.ts')).doctor(values),
    },
    backup: {
      says: 'back up one snapshot of all data while the server runs',
      flags: [needed('--to <folder>', 'a folder that does not exist yet, only for this backup'), ...server],
      run: async (_, values) => (await import('./backups.ts')).backup(values),
    },
    restore: {
      says: 'restore a backup, then release the restored database',
      flags: [
        flag('--from <folder>', 'restore into an empty database, which is then held'),
        create,
        flag('--release', 'find charges after the backup, and release the held database'),
        repeated('--without <account>', 'release without asking this payment account'),
        flag('--settle <charge>', 'mark an unmatched charge as settled by a person'),
        ...server,
      ],
      run: async (_, values) => (await import('./backups.ts')).restore(values),
    },
    upgrade: {
      says: 'back up, then migrate, then run doctor',
      flags: [flag('--to <folder>', 'the folder of the backup'), flag('--no-backup', 'skip the backup'), ...server],
      run: async (_, values) => (await import('./backups.ts')).upgrade(values),
    },
  },
  'Administer:': {
    operator: {
      says: 'the operator of this deployment, and what it allows',
      commands: {
        create: {
          says: 'create the operator, with a token',
          flags: [needed('--email <address>', 'the e-mail address of the operator'), ...local],
          settings: 'server',
          run: async (_, values) => (await import('./commands.ts')).operator(['create'], values),
        },
        open: operator('open'),
        close: operator('close'),
        sender: {
          takes: '<address>',
          says: "set the sender address of an organization's mails; the word default removes it",
          flags: [inOrganization, ...local],
          settings: 'server',
          run: async (rest, values) => (await import('./commands.ts')).operator(['sender', ...rest], values),
        },
      },
    },
    token: {
      says: 'access tokens of an organization',
      commands: {
        create: token('create', 'create a token, and print it once', [
          needed('--comment <text>', 'what the token is for'),
          needed('--scopes <a,b>', 'what it may do, such as orders:read,products:write'),
          flag('--days <n>', 'expires after this many days (default: never)'),
        ]),
        list: token('list', 'list the tokens'),
        revoke: token('revoke', 'revoke a token', [needed('--id <id>', 'the id of the token')]),
      },
    },
    client: {
      says: 'how the consent page shows OAuth apps',
      commands: { verify: client('verify', 'mark an OAuth app as verified'), unverify: client('unverify', 'mark an OAuth app as not verified') },
    },
    keys: {
      says: 'signing keys and sealing keys',
      commands: {
        rotate: keys('rotate', 'sign ID tokens with the next key from now on'),
        'rotate-licences': keys('rotate-licences', 'sign licences for offline use with a new key in five minutes'),
        reseal: keys('reseal', 'seal every stored secret with the newest sealing key; then the old key can be removed'),
      },
    },
    mails: {
      says: 'undelivered and unwanted mails',
      commands: {
        receive: {
          says: 'record the report of an undelivered or unwanted mail, from standard input',
          flags: local,
          settings: 'server',
          run: async (_, values) => (await import('./mails.ts')).mails(['receive'], values),
        },
        suppressed: {
          says: 'list the addresses that get no mails, or send to one again',
          flags: [ofOrganization, flag('--clear <address>', 'send to this address again'), ...local],
          settings: 'server',
          run: async (_, values) => (await import('./mails.ts')).mails(['suppressed'], values),
        },
      },
    },
    audit: {
      says: 'the audit log',
      commands: {
        verify: {
          says: 'verify the hash chain of the audit log',
          flags: local,
          settings: 'server',
          run: async (_, values) => (await import('./commands.ts')).audit(['verify'], values),
        },
      },
    },
    verify: {
      says: 'recompute metrics, usage or the copy of usage from the records, and compare',
      commands: {
        metrics: {
          says: 'recompute metrics from the records, and compare',
          flags: [
            ofOrganization,
            flag('--samples <days>', 'days to recompute for each organization (default: 5)'),
            flag('--rebuild', 'rebuild all sums first'),
            ...local,
          ],
          settings: 'server',
          run: async (_, values) => (await import('./verify.ts')).verify(['metrics'], values),
        },
        copy: {
          says: 'compare the usage events with their copy in the event store',
          flags: [ofOrganization, ...local],
          settings: 'server',
          run: async (_, values) => (await import('./verify.ts')).verifyEventStore(values),
        },
        usage: {
          says: 'recompute the totals of meters from the usage events, and compare',
          flags: [ofOrganization, ...local],
          settings: 'server',
          run: async (_, values) => (await import('./verify.ts')).verify(['usage'], values),
        },
      },
    },
  },
  'Data of an organization:': {
    orders: { says: 'export orders', more: 'Example: bursar orders export > orders.csv', commands: exporting('orders', filters('orders')) },
    subscriptions: {
      says: 'export subscriptions',
      more: 'Example: bursar subscriptions export > subscriptions.csv',
      commands: exporting('subscriptions', filters('subscriptions')),
    },
    customers: {
      says: 'export customers',
      more: 'Example: bursar customers export > customers.csv',
      commands: exporting('customers', [flag('--columns <a,b>', 'only these columns, in this order')]),
    },
    payments: {
      says: 'the payment account of an organization',
      // These commands send or show data of the payment account, so they never use the settings of a sandbox that they find.
      commands: {
        connect: {
          says: 'connect your Stripe account: STRIPE_SECRET_KEY, STRIPE_PUBLISHABLE_KEY, STRIPE_WEBHOOK_SECRET',
          flags: [needed('--email <address>', 'an owner or admin, who gets a sign-in code'), ofOrganization, ...door, json],
          run: async (_, values) => (await import('./payments.ts')).payments(['connect'], values),
        },
        status: {
          says: 'show the account that receives payments',
          flags: [ofOrganization, ...door, json],
          run: async (_, values) => (await import('./payments.ts')).payments(['status'], values),
        },
      },
    },
    import: {
      says: 'import an organization',
      commands: {
        legacy: {
          takes: '<bundle.jsonl>',
          says: 'import an organization of the legacy member model',
          flags: [inOrganization, ...local],
          settings: 'server',
          run: async (rest, values) => (await import('./import.ts')).importFile(['legacy', ...rest], values),
        },
      },
    },
    members: {
      says: 'the member migration',
      commands: {
        status: members('status', 'show the progress of the migration, and its problems'),
        rehearse: members('rehearse', 'dry run without changes', [flag('--out <file>', 'write the complete plan as a CSV file')]),
        prepare: members('prepare', 'create the members (phase 1); API answers do not change'),
        switch: members('switch', 'show members in API answers (phase 2)', [yes]),
        undo: members('undo', 'undo the last step', [yes]),
        seal: members('seal', 'complete the migration; cannot be undone', [yes]),
        map: members('map', 'write the member of each seat holder as a CSV file', [out]),
      },
    },
  },
  'This program:': {
    completion: {
      takes: '<shell>',
      says: 'print the completion script of a shell: bash or zsh',
      more: 'bash: eval "$(bursar completion bash)" in ~/.bashrc\nzsh:  eval "$(bursar completion zsh)" in ~/.zshrc, after compinit',
      run: async ([shell], _, program) => (await import('./completion.ts')).completion(shell!, program),
    },
  },
}

/** Flags that may also stand before the command. */
export const early = [json, env, ...door]
