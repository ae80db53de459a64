import { createPublicKey, type KeyObject } from 'node:crypto'
import { rateLimits } from '@bursar/contract'
import { z } from 'zod'
import { Secret, type Environment, type Pepper } from '../kernel/secrets.ts'
import { bounceAddress, dkimSelectors, type BounceAddress } from './mail-settings.ts'

const address = z.string().regex(/^(\[[0-9a-f:]+\]|[^:]+):\d{1,5}$/, 'give host:port, for example 127.0.0.1:4100')
const secretUrl = (schemes: string) => z.url({ protocol: new RegExp(`^(${schemes})$`) }).transform((text) => new Secret(text))

/** Several URLs, separated by commas. */
const secretUrls = (schemes: string) =>
  z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(secretUrl(schemes)))
    .refine((urls) => new Set(urls.map((url) => new URL(url.reveal()).host)).size === urls.length, 'name each server once')

const webUrl = z.url({ protocol: /^https?$/ }).transform((text) => new URL(text))
const bucket = z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'give the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens')

const peppers = z.string().transform((text, ctx): [Pepper, ...Pepper[]] => {
  const list = text.split(',').map((part) => {
    const [version = '', key = ''] = part.split(':')
    return { version: Number(version), key: Buffer.from(key, 'base64') }
  })
  if (list.some((pepper) => !Number.isInteger(pepper.version) || pepper.version < 1 || pepper.key.length < 32))
    ctx.addIssue('give version:key pairs, newest first, each key the base64 of at least 32 bytes, for example 2:<key>,1:<key>')
  return list as [Pepper, ...Pepper[]]
})

const sealingKeys = peppers.refine((list) => list.every(({ key }) => key.length === 32), 'each key must be the base64 of exactly 32 bytes')

const scanningKeys = z.string().transform((text, ctx): ReadonlyMap<string, KeyObject> => {
  try {
    const named = z.record(z.string(), z.string()).parse(JSON.parse(text))
    return new Map(Object.entries(named).map(([name, pem]) => [name, createPublicKey(pem)]))
  } catch {
    ctx.addIssue('give a JSON object that maps key identifiers to PEM public keys')
    return new Map()
  }
})

/** The rate limit of distinct seat recipients per day. It is not part of `rateLimits`, because it is counted in the database. */
const seatRecipients = { name: 'seat_recipients', seconds: 86_400 }
const budgetNames = [...Object.keys(rateLimits), seatRecipients.name].toSorted()

/** Rate limits by budget, as a list of windows. `{"api": [[500, 60]]}` allows 500 requests in any 60 seconds. */
const budgets = z.string().transform((text, ctx): Readonly<Record<string, readonly (readonly [number, number])[]>> => {
  try {
    const given = z.record(z.string(), z.array(z.tuple([z.int().min(1), z.number().positive()])).min(1)).parse(JSON.parse(text))
    const unknown = Object.keys(given).filter((name) => !budgetNames.includes(name))
    if (unknown.length > 0) ctx.addIssue(`${unknown.map((name) => JSON.stringify(name)).join(', ')}: unknown budget. The budgets are ${budgetNames.join(', ')}`)
    const daily = given[seatRecipients.name]
    if (daily && (daily.length > 1 || daily[0]![1] !== seatRecipients.seconds))
      ctx.addIssue(
        `${seatRecipients.name} has one window of ${seatRecipients.seconds} seconds: give {"${seatRecipients.name}": [[<limit>, ${seatRecipients.seconds}]]}`,
      )
    return given
  } catch {
    ctx.addIssue('give a JSON object that maps budget names to their windows, for example {"api": [[500, 60]]}')
    return {}
  }
})

/** A comma-separated list of seconds, for example `5,30,300`. */
const schedule = z.string().transform((text, ctx): readonly number[] => {
  const list = text.split(',').map(Number)
  if (list.length > 30 || list.some((one) => !(one > 0))) ctx.addIssue('give up to 30 numbers of seconds, separated by commas, for example 5,30,300')
  return list
})

const mebibyte = 1024 * 1024

const variables = {
  BURSAR_ENV: z.enum(['sandbox', 'production']),
  BURSAR_DATABASE_URL: secretUrl('postgres|postgresql'),
  /** The database login for migrations. It owns the tables, so that the serving login need not. */
  BURSAR_DATABASE_OWNER_URL: secretUrl('postgres|postgresql').optional(),
  BURSAR_DATABASE_CONNECTIONS: z.coerce.number().int().min(2).max(500).default(20),
  BURSAR_DATABASE_PREPARED: z.enum(['on', 'off']).default('on'),
  BURSAR_DATABASE_TIMEOUT_MS: z.coerce.number().int().min(500).max(120_000).default(5000),
  BURSAR_REDIS_TIMEOUT_MS: z.coerce.number().int().min(50).max(120_000).default(250),
  /** Required in production. A sandbox with a single process can run without Redis. */
  BURSAR_REDIS_URL: secretUrl('redis|rediss').optional(),
  /** A ClickHouse server with a copy of the usage events, such as https://user:password@host:8443/database. Several servers replicate each other. */
  BURSAR_CLICKHOUSE_URL: secretUrls('http|https').default([]),
  BURSAR_PEPPERS: peppers,
  /** The keys that encrypt stored secrets, such as webhook secrets, which must be decrypted later. */
  BURSAR_SEALING_KEYS: sealingKeys,
  BURSAR_PUBLIC_URL: webUrl,
  /** The address of the sign-in and consent pages, if their host differs from `BURSAR_PUBLIC_URL`. */
  BURSAR_AUTH_URL: webUrl.optional(),
  BURSAR_BUDGETS: budgets.default({}),
  /** The addresses of our own proxies. Forwarded client addresses are accepted only from them. */
  BURSAR_TRUSTED_PROXIES: z
    .string()
    .regex(/^[0-9a-f.:/]+(,[0-9a-f.:/]+)*$/i, 'give addresses or networks, separated by commas')
    .transform((text) => text.split(','))
    .optional(),
  /** Hosts that requests may name besides localhost, 127.0.0.1 and [::1]. If not set, every host is allowed. */
  BURSAR_ALLOWED_HOSTS: z
    .string()
    .toLowerCase()
    .regex(
      /^(\[[0-9a-f:]+\]|[a-z0-9._-]+)(,(\[[0-9a-f:]+\]|[a-z0-9._-]+))*$/,
      'give hosts without ports, separated by commas, for example shop.test,192.168.1.5',
    )
    .transform((text) => text.split(','))
    .optional(),
  BURSAR_LISTEN: address.default('127.0.0.1:4100'),
  BURSAR_ADMIN_LISTEN: address.default('127.0.0.1:4101'),
  BURSAR_SMTP_URL: secretUrl('smtp|smtps').optional(),
  BURSAR_MAIL_DIR: z.string().min(1).optional(),
  /** The folder in which the sandbox records the effects of its simulated GitHub, Discord and Slack. */
  BURSAR_COMMUNITIES_DIR: z.string().min(1).optional(),
  /** The storage for files: a folder, or alternatively an S3-compatible store. */
  BURSAR_STORAGE_DIR: z.string().min(1).optional(),
  /** Maximum size of one file, and of all files of an organization, in MiB. */
  BURSAR_FILE_LIMIT_MIB: z.coerce.number().positive().max(5_242_880).default(5120),
  BURSAR_STORAGE_QUOTA_MIB: z.coerce.number().positive().max(1_000_000_000).default(51_200),
  BURSAR_S3_BUCKET: bucket.optional(),
  /** The bucket for public files. */
  BURSAR_S3_PUBLIC_BUCKET: bucket.optional(),
  BURSAR_S3_ACCESS_KEY_ID: z.string().min(1).optional(),
  BURSAR_S3_SECRET_ACCESS_KEY: z
    .string()
    .min(1)
    .transform((text) => new Secret(text))
    .optional(),
  BURSAR_S3_REGION: z.string().min(1).default('us-east-1'),
  /** The URL of the S3-compatible store. Not set for Amazon S3. */
  BURSAR_S3_ENDPOINT: webUrl.optional(),
  /** The URL at which clients reach the S3-compatible store, if it differs from `BURSAR_S3_ENDPOINT`. */
  BURSAR_S3_LINK_ENDPOINT: webUrl.optional(),
  /** The public address of the public bucket, for example of a CDN. */
  BURSAR_S3_PUBLIC_URL: webUrl.optional(),
  /** Puts the bucket in the path instead of the host name. */
  BURSAR_S3_PATH_STYLE: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .optional(),
  /** The base URL of a simulated Stripe API, for a sandbox. */
  BURSAR_STRIPE_API_BASE: webUrl.optional(),
  /** The tax service of this deployment: its address, the token that authenticates us there, and the timeout of one request. */
  BURSAR_TAX_URL: webUrl.optional(),
  BURSAR_TAX_TOKEN: z
    .string()
    .min(1)
    .transform((text) => new Secret(text))
    .optional(),
  BURSAR_TAX_TIMEOUT_MS: z.coerce.number().int().min(50).max(20_000).default(4000),
  /** The service that checks VAT numbers: its address, and the timeout of one request. */
  BURSAR_VAT_URL: webUrl.optional(),
  BURSAR_VAT_TIMEOUT_MS: z.coerce.number().int().min(50).max(10_000).default(2000),
  BURSAR_MAIL_FROM: z.string().min(3).default('Bursar <bursar@localhost>'),
  /** The address to which undelivered mails return. It contains the token of the mail. */
  BURSAR_MAIL_BOUNCES: bounceAddress.optional(),
  /** The DKIM selectors with which the mail server signs, for the doctor. */
  BURSAR_MAIL_DKIM_SELECTORS: dkimSelectors.optional(),
  BURSAR_SCANNING_KEYS: scanningKeys.default(new Map()),
  /** Timeout of a webhook delivery. */
  BURSAR_WEBHOOK_TIMEOUT_MS: z.coerce.number().int().min(50).max(60_000).default(10_000),
  /** Maximum number of concurrent webhook deliveries per worker. */
  BURSAR_WEBHOOK_CONCURRENCY: z.coerce.number().int().min(8).max(4096).default(256),
  /**
   * Seconds to wait after each failed delivery attempt. After the last failed attempt, the delivery is parked: it is
   * sent again only on request.
   */
  BURSAR_WEBHOOK_SCHEDULE: schedule.default([5, 30, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]),
  /** For development: allows webhook endpoints on this machine, and with http instead of https. */
  BURSAR_EGRESS_LOOPBACK: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .default(false),
  /** DNS servers to use instead of the system's, as host:port. */
  BURSAR_DNS_SERVERS: z
    .string()
    .transform((text) => text.split(','))
    .optional(),
  /** Batch size of the member migration, and the days after which it is sealed automatically and can no longer be undone. */
  BURSAR_MEMBER_MIGRATION_BATCH: z.coerce.number().int().min(1).max(10_000).default(1000),
  BURSAR_MEMBER_MIGRATION_SEAL_DAYS: z.coerce.number().positive().max(3650).default(30),
  BURSAR_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  BURSAR_OTLP_ENDPOINT: z.url().optional(),
  BURSAR_DRAIN_SECONDS: z.coerce.number().int().min(0).max(300).default(0),
}

const Variables = z.object(variables).superRefine((value, ctx) => {
  if (!value.BURSAR_SMTP_URL === !value.BURSAR_MAIL_DIR)
    ctx.addIssue({
      code: 'custom',
      path: ['BURSAR_SMTP_URL'],
      message: 'set either BURSAR_SMTP_URL (a mail server) or BURSAR_MAIL_DIR (a folder, for development)',
    })
  if (value.BURSAR_ENV === 'production' && value.BURSAR_PUBLIC_URL.protocol !== 'https:')
    ctx.addIssue({ code: 'custom', path: ['BURSAR_PUBLIC_URL'], message: 'must be https in production' })
  if (value.BURSAR_ENV === 'production' && !value.BURSAR_REDIS_URL)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_REDIS_URL'], message: 'missing; only a sandbox can run without it' })
  if (value.BURSAR_AUTH_URL && value.BURSAR_AUTH_URL.protocol !== value.BURSAR_PUBLIC_URL.protocol)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_AUTH_URL'], message: 'must have the same scheme as BURSAR_PUBLIC_URL' })
  if (value.BURSAR_ENV === 'production' && value.BURSAR_COMMUNITIES_DIR)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_COMMUNITIES_DIR'], message: 'is for the sandbox only; remove it in production' })
  if (value.BURSAR_ENV === 'production' && value.BURSAR_STRIPE_API_BASE)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_STRIPE_API_BASE'], message: 'points to a replacement for Stripe; remove it in production' })
  if (!value.BURSAR_TAX_URL !== !value.BURSAR_TAX_TOKEN)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_TAX_URL'], message: 'set both BURSAR_TAX_URL and BURSAR_TAX_TOKEN, or neither' })
  if (value.BURSAR_ENV === 'production' && value.BURSAR_TAX_URL && value.BURSAR_TAX_URL.protocol !== 'https:')
    ctx.addIssue({ code: 'custom', path: ['BURSAR_TAX_URL'], message: 'must be https in production' })
  if (value.BURSAR_ENV === 'production' && value.BURSAR_VAT_URL && value.BURSAR_VAT_URL.protocol !== 'https:')
    ctx.addIssue({ code: 'custom', path: ['BURSAR_VAT_URL'], message: 'must be https in production' })
  const refuse = (name: keyof typeof value, message: string) => ctx.addIssue({ code: 'custom', path: [name], message })
  const store = ['BURSAR_S3_BUCKET', 'BURSAR_S3_PUBLIC_BUCKET', 'BURSAR_S3_ACCESS_KEY_ID', 'BURSAR_S3_SECRET_ACCESS_KEY'] as const
  const named = store.filter((name) => value[name] !== undefined)
  if (named.length > 0 && value.BURSAR_STORAGE_DIR) refuse('BURSAR_STORAGE_DIR', `set either BURSAR_STORAGE_DIR or S3 storage (${named.join(', ')}), not both`)
  if (named.length > 0) for (const name of store) if (!named.includes(name)) refuse(name, `missing; S3 storage needs ${store.join(', ')}`)
  if (value.BURSAR_S3_BUCKET !== undefined && value.BURSAR_S3_BUCKET === value.BURSAR_S3_PUBLIC_BUCKET)
    refuse('BURSAR_S3_PUBLIC_BUCKET', 'must differ from BURSAR_S3_BUCKET, because its content is public')
  const linked = value.BURSAR_S3_LINK_ENDPOINT ?? value.BURSAR_S3_ENDPOINT
  if (value.BURSAR_ENV === 'production' && named.length > 0 && linked && linked.protocol !== 'https:')
    refuse(
      value.BURSAR_S3_LINK_ENDPOINT ? 'BURSAR_S3_LINK_ENDPOINT' : 'BURSAR_S3_ENDPOINT',
      'must be https in production, because clients use it; to give clients another address, set BURSAR_S3_LINK_ENDPOINT',
    )
  if (value.BURSAR_ENV === 'production' && value.BURSAR_EGRESS_LOOPBACK)
    ctx.addIssue({ code: 'custom', path: ['BURSAR_EGRESS_LOOPBACK'], message: 'is for development only; remove it in production' })
})

export interface Config {
  readonly environment: Environment
  readonly database_url: Secret
  readonly database_owner_url: Secret
  readonly database_connections: number
  readonly database_timeout_ms: number
  readonly database_prepared: boolean
  readonly redis_timeout_ms: number
  readonly redis_url: Secret | undefined
  /** The store for the copy of the usage events. */
  readonly event_store_urls: readonly Secret[]
  readonly peppers: readonly [Pepper, ...Pepper[]]
  readonly sealing_keys: readonly [Pepper, ...Pepper[]]
  readonly public_url: URL
  readonly auth_url: URL
  readonly budgets: Readonly<Record<string, readonly (readonly [number, number])[]>>
  readonly trusted_proxies: readonly string[]
  /** The allowed hosts of requests. Empty if every host is allowed. */
  readonly allowed_hosts: readonly string[]
  readonly listen: Address
  readonly admin_listen: Address
  readonly mail: {
    readonly from: string
    readonly smtp_url?: Secret
    readonly directory?: string
    /** The address to which undelivered mails return, around the token of the mail. Undefined if they return to `from`. */
    readonly bounces: BounceAddress | undefined
    readonly dkim_selectors: readonly string[]
    /** True if the mailbox page may show e-mails to every visitor: only on a local machine, and never in production. */
    readonly readable: boolean
  }
  readonly scanning_keys: ReadonlyMap<string, KeyObject>
  readonly communities_dir: string | undefined
  /** The tax service. Undefined if none is configured. */
  readonly tax: { readonly url: URL; readonly token: Secret; readonly timeout_ms: number } | undefined
  /** The service that checks VAT numbers. Undefined if none is configured. */
  readonly vat: { readonly url: URL; readonly timeout_ms: number } | undefined
  readonly stripe: { readonly api_base: URL | undefined }
  /** The storage for files. Undefined if none is configured. */
  readonly storage: { readonly folder: string } | StoreConfig | undefined
  /** Limits of stored files, in bytes. */
  readonly files: { readonly file_bytes: number; readonly organization_bytes: number }
  readonly log_level: string
  readonly otlp_endpoint: string | undefined
  readonly drain_seconds: number
  readonly member_migration: { readonly batch: number; readonly seal_days: number }
  readonly webhooks: { readonly timeout_ms: number; readonly concurrency: number; readonly schedule: readonly number[] }
  readonly egress: { readonly loopback: boolean; readonly dns_servers: readonly string[] | undefined; readonly own_host: string }
}

/** An S3-compatible store. */
export interface StoreConfig {
  readonly bucket: string
  readonly public_bucket: string
  readonly access_key_id: string
  readonly secret_access_key: Secret
  readonly region: string
  readonly endpoint: URL | undefined
  readonly link_endpoint: URL | undefined
  readonly public_url: URL | undefined
  readonly path_style: boolean
}

export interface Address {
  readonly host: string
  readonly port: number
}

/** The configuration is invalid, so the process does not start. The message names variables and rules, never a value. */
export class ConfigurationRefused extends Error {}

/** Settings of commands that call a running deployment. The server ignores them. */
const ofCommands = ['BURSAR_API', 'BURSAR_TOKEN']

/** Reads the configuration. Throws one error that lists all missing, malformed and unknown settings. */
export const readConfig = (environment: NodeJS.ProcessEnv): Config => {
  const ours = Object.fromEntries(
    Object.entries(environment).filter(([name, value]) => name.startsWith('BURSAR_') && value !== '' && !ofCommands.includes(name)),
  )
  const problems = Object.keys(ours)
    .filter((name) => !(name in variables))
    .map((name) => `${name}: not a setting of this version${nearest(name)}`)
  const parsed = Variables.safeParse(ours)
  if (!parsed.success)
    for (const issue of parsed.error.issues) {
      const name = String(issue.path[0])
      problems.push(name in ours || issue.code === 'custom' ? `${name}: ${issue.message}` : `${name}: missing`)
    }
  if (problems.length > 0 || !parsed.success)
    throw new ConfigurationRefused(`The configuration is not valid:\n${problems.map((line) => `  ${line}`).join('\n')}`)
  const value = parsed.data
  return {
    environment: value.BURSAR_ENV,
    database_url: value.BURSAR_DATABASE_URL,
    database_owner_url: value.BURSAR_DATABASE_OWNER_URL ?? value.BURSAR_DATABASE_URL,
    database_connections: value.BURSAR_DATABASE_CONNECTIONS,
    database_timeout_ms: value.BURSAR_DATABASE_TIMEOUT_MS,
    database_prepared: value.BURSAR_DATABASE_PREPARED === 'on',
    redis_timeout_ms: value.BURSAR_REDIS_TIMEOUT_MS,
    redis_url: value.BURSAR_REDIS_URL,
    event_store_urls: value.BURSAR_CLICKHOUSE_URL,
    peppers: value.BURSAR_PEPPERS,
    sealing_keys: value.BURSAR_SEALING_KEYS,
    public_url: value.BURSAR_PUBLIC_URL,
    auth_url: value.BURSAR_AUTH_URL ?? value.BURSAR_PUBLIC_URL,
    budgets: value.BURSAR_BUDGETS,
    trusted_proxies: value.BURSAR_TRUSTED_PROXIES ?? [],
    allowed_hosts: value.BURSAR_ALLOWED_HOSTS ?? [],
    listen: splitAddress(value.BURSAR_LISTEN),
    admin_listen: splitAddress(value.BURSAR_ADMIN_LISTEN),
    mail: {
      from: value.BURSAR_MAIL_FROM,
      ...(value.BURSAR_SMTP_URL ? { smtp_url: value.BURSAR_SMTP_URL } : {}),
      ...(value.BURSAR_MAIL_DIR ? { directory: value.BURSAR_MAIL_DIR } : {}),
      bounces: value.BURSAR_MAIL_BOUNCES,
      dkim_selectors: value.BURSAR_MAIL_DKIM_SELECTORS ?? [],
      readable:
        value.BURSAR_MAIL_DIR !== undefined &&
        value.BURSAR_ENV === 'sandbox' &&
        [value.BURSAR_PUBLIC_URL, value.BURSAR_AUTH_URL ?? value.BURSAR_PUBLIC_URL].every(({ hostname }) =>
          /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname),
        ),
    },
    communities_dir: value.BURSAR_COMMUNITIES_DIR,
    tax:
      value.BURSAR_TAX_URL && value.BURSAR_TAX_TOKEN
        ? { url: value.BURSAR_TAX_URL, token: value.BURSAR_TAX_TOKEN, timeout_ms: value.BURSAR_TAX_TIMEOUT_MS }
        : undefined,
    vat: value.BURSAR_VAT_URL && { url: value.BURSAR_VAT_URL, timeout_ms: value.BURSAR_VAT_TIMEOUT_MS },
    stripe: { api_base: value.BURSAR_STRIPE_API_BASE },
    storage:
      value.BURSAR_STORAGE_DIR !== undefined
        ? { folder: value.BURSAR_STORAGE_DIR }
        : value.BURSAR_S3_BUCKET === undefined
          ? undefined
          : {
              bucket: value.BURSAR_S3_BUCKET,
              public_bucket: value.BURSAR_S3_PUBLIC_BUCKET!,
              access_key_id: value.BURSAR_S3_ACCESS_KEY_ID!,
              secret_access_key: value.BURSAR_S3_SECRET_ACCESS_KEY!,
              region: value.BURSAR_S3_REGION,
              endpoint: value.BURSAR_S3_ENDPOINT,
              link_endpoint: value.BURSAR_S3_LINK_ENDPOINT,
              public_url: value.BURSAR_S3_PUBLIC_URL,
              // Amazon S3 has a host name for every bucket; most other stores do not.
              path_style: value.BURSAR_S3_PATH_STYLE ?? value.BURSAR_S3_ENDPOINT !== undefined,
            },
    files: { file_bytes: Math.floor(value.BURSAR_FILE_LIMIT_MIB * mebibyte), organization_bytes: Math.floor(value.BURSAR_STORAGE_QUOTA_MIB * mebibyte) },
    scanning_keys: value.BURSAR_SCANNING_KEYS,
    log_level: value.BURSAR_LOG_LEVEL,
    otlp_endpoint: value.BURSAR_OTLP_ENDPOINT,
    drain_seconds: value.BURSAR_DRAIN_SECONDS,
    member_migration: { batch: value.BURSAR_MEMBER_MIGRATION_BATCH, seal_days: value.BURSAR_MEMBER_MIGRATION_SEAL_DAYS },
    webhooks: { timeout_ms: value.BURSAR_WEBHOOK_TIMEOUT_MS, concurrency: value.BURSAR_WEBHOOK_CONCURRENCY, schedule: value.BURSAR_WEBHOOK_SCHEDULE },
    egress: { loopback: value.BURSAR_EGRESS_LOOPBACK, dns_servers: value.BURSAR_DNS_SERVERS, own_host: value.BURSAR_PUBLIC_URL.hostname },
  }
}

const splitAddress = (text: string): Address => {
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) }
}

/** Suggests the setting that shares the longest prefix with the given name. */
const nearest = (name: string) => {
  const shared = (other: string) => {
    let at = 0
    while (at < name.length && name[at] === other[at]) at++
    return at
  }
  const best = Object.keys(variables).toSorted((a, b) => shared(b) - shared(a))[0]
  return best ? `; the nearest one is ${best}` : ''
}
