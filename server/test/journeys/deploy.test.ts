import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readConfig } from '../../src/platform/config.ts'
import { openCluster, type Cluster } from '../faults/kills/cluster.ts'
import { contained, installed, layOut, readIgnore, readSettings, readStages, root, type Contained } from '../harness/image.ts'
import { eventually, exchange, freePort } from '../harness/world.ts'

interface Service {
  readonly image: string
  readonly command?: readonly string[]
  readonly profiles: readonly string[]
  readonly user?: string
  readonly read_only?: boolean
  readonly tmpfs?: readonly string[]
  readonly cap_drop: readonly string[]
  readonly cap_add?: readonly string[]
  readonly security_opt: readonly string[]
  readonly privileged?: boolean
  readonly env_file?: readonly string[]
  readonly environment?: unknown
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly networks: readonly string[]
  readonly healthcheck?: {
    readonly test?: readonly string[]
    readonly disable?: boolean
    readonly interval?: string
    readonly timeout?: string
    readonly start_period?: string
  }
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
}
const stages = readStages(join(root, 'deploy/Dockerfile'))
const image = stages.at(-1)!
const compose = parse(readFileSync(join(root, 'deploy/compose.yaml'), 'utf8'), { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, unknown>
  networks: Record<string, { internal?: boolean } | null>
}
const services = Object.entries(compose.services)
const stageOf = (name: string) => stages.find(([from]) => from!.words[2] === name)!
const said = (name: string) => image.findLast((one) => one.name === name)!
const environments = ['sandbox', 'production'] as const

test('builds the image in stages from pinned bases, runs it unprivileged, and puts no secret into it', () => {
  expect(stages.length).toBeGreaterThan(2)
  const built = stages.map(([from]) => from!.words[2]).filter((name) => name !== undefined)
  for (const [from] of stages) if (!built.includes(from!.words[0]!)) expect(from!.words[0]).toMatch(/^node:\d+\.\d+\.\d+-bookworm-slim(@sha256:[0-9a-f]{64})?$/)
  expect(said('FROM').words[0]!.split('@')[0]).toBe(`node:${/node_version=(\S+)/.exec(readFileSync(join(root, 'scripts/setup'), 'utf8'))![1]}-bookworm-slim`)
  expect(stages[0]!.some(({ text }) => text.endsWith(`pnpm@${/pnpm_version=(\S+)/.exec(readFileSync(join(root, 'scripts/setup'), 'utf8'))![1]}`))).toBe(true)
  expect(said('USER').text).toBe('node')
  expect(said('ENV').words.map((word) => word.split('=')[0])).toEqual(['NODE_ENV', 'NODE_OPTIONS', 'BURSAR_LISTEN', 'BURSAR_ADMIN_LISTEN'])
  for (const stage of stages) expect(stage.filter(({ name }) => name === 'ARG' || name === 'ADD')).toEqual([])
  const sent = readIgnore(join(root, '.dockerignore'))
  const away = [
    '.git/config',
    '.env',
    '.env.local',
    'deploy/production.env',
    'server/.env',
    'node_modules/zod/index.js',
    'server/test/harness/world.ts',
    'server/src/main/doctor.test.ts',
  ]
  for (const path of away) expect([path, sent(path)]).toEqual([path, false])
  for (const stage of stages)
    for (const { words, flags } of stage.filter(({ name }) => name === 'COPY'))
      if (!flags.from) for (const word of words.slice(0, -1)) expect([word, sent(word.replace(/\/$/, ''))]).toEqual([word, true])
})

test('confines every container, and shares only the image between the two environments', () => {
  for (const [name, service] of services) {
    const about = (value: unknown) => ({ [name]: value })
    expect(about([service.cap_drop, service.security_opt, service.privileged])).toEqual(about([['ALL'], ['no-new-privileges:true'], undefined]))
    const environment = name.split('-')[0]!
    // Services for single commands have their own profile, so that they do not start with the others.
    expect(about(service.profiles)).toEqual(about([name.endsWith('-tools') ? name : environment]))
    expect(about(service.environment)).toEqual(about(undefined))
    if (service.image === 'bursar')
      expect(about([service.user, service.read_only, service.tmpfs, service.cap_add])).toEqual(about(['node', true, ['/tmp'], undefined]))
    else expect(service.image).toMatch(/^(postgres|redis):\d+\.\d+-bookworm$/)
    // Ports are bound to this machine only, because a proxy terminates TLS.
    for (const port of service.ports ?? []) expect(about(port)).toEqual(about(expect.stringMatching(/^127\.0\.0\.1:\d+:\d+$/)))
    for (const network of service.networks)
      expect(about(network)).toEqual(about(network.endsWith('-outside') ? `${environment}-outside` : `${environment}-inside`))
    for (const volume of service.volumes ?? [])
      expect(about(volume)).toEqual(about(expect.stringMatching(new RegExp(`^(${environment}-|\\./postgres/init\\.sh:.*:ro$)`))))
    for (const file of service.env_file ?? [])
      expect(about(file)).toEqual(about(expect.stringMatching(new RegExp(`^${environment}(\\.owner|\\.postgres)?\\.env$`))))
    // Services that handle requests do not know the login of the database owner.
    expect(about(service.env_file?.includes(`${environment}.owner.env`) ?? false)).toEqual(about(/-(migrate|tools)$/.test(name)))
    // Images in the format of OCI lose their health check, so every service that serves has it too.
    if (/-(api|worker)$/.test(name)) {
      const { test, ...times } = service.healthcheck!
      expect(about(test)).toEqual(about(['CMD', ...said('HEALTHCHECK').words]))
      expect(about({ interval: times.interval, timeout: times.timeout, 'start-period': times.start_period })).toEqual(about(said('HEALTHCHECK').flags))
    }
    for (const needed of Object.keys(service.depends_on ?? {})) expect(compose.services[needed]!.profiles).toEqual(service.profiles)
  }
  const shape = (environment: string) =>
    services.filter(([name]) => name.startsWith(environment)).map(([name, { image: of, command }]) => [name.slice(environment.length), of, command])
  expect(shape('sandbox')).toEqual(shape('production'))
  for (const environment of environments) expect(compose.networks[`${environment}-inside`]).toEqual({ internal: true })
})

test('runs every documented command in a tools service that starts no other service, so that no migration runs before the backup', () => {
  const pages = ['deploy/README.md', 'docs/guides/self-host.md', 'docs/runbooks/upgrade.md', 'docs/runbooks/backup-and-restore.md']
  const commands = pages.flatMap((page) =>
    [...readFileSync(join(root, page), 'utf8').matchAll(/docker compose [^`\n]* run ([^`\n]*)/g)].map(([, rest]) => rest!),
  )
  for (const needed of ['upgrade --to', 'backup --to', 'restore --from']) expect(commands.filter((command) => command.includes(` ${needed} `))).toHaveLength(1)
  for (const command of commands) {
    expect(command).toMatch(/^--rm --no-deps /)
    const service = command.split(' ').find((word) => word in compose.services)!
    expect([command, service]).toEqual([command, expect.stringMatching(/-tools$/)])
    expect(compose.services[service]!.depends_on).toBeUndefined()
  }
})

let folder: string
let cluster: Cluster | undefined
const running: Contained[] = []
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-image-'))
  chmodSync(folder, 0o755)
  cpSync(join(root, 'deploy'), join(folder, 'deploy'), { recursive: true })
})
afterAll(async () => {
  for (const one of running) {
    one.signal('SIGKILL')
    await one.exited
  }
  await cluster?.close()
  rmSync(folder, { recursive: true, force: true })
})

test('creates settings with new secrets once, readable by their owner only, and valid for the process', () => {
  const made = environments.map((environment) => {
    execFileSync(join(folder, 'deploy/prepare'), [environment])
    const files = ['', '.owner', '.postgres'].map((kind) => join(folder, 'deploy', `${environment}${kind}.env`))
    for (const file of files) expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(spawnSync(join(folder, 'deploy/prepare'), [environment]).status).toBe(1)
    const settings = readSettings(files[0]!)
    expect(readConfig(settings).environment).toBe(environment)
    expect(JSON.stringify(settings)).not.toContain('bursar_owner')
    return { ...settings, ...readSettings(files[1]!) }
  })
  for (const name of ['BURSAR_DATABASE_URL', 'BURSAR_DATABASE_OWNER_URL', 'BURSAR_REDIS_URL', 'BURSAR_PEPPERS', 'BURSAR_SEALING_KEYS', 'BURSAR_PUBLIC_URL'])
    expect(made[0]![name]).not.toBe(made[1]![name])
})

test('gives no secret to another program as an argument, because every user of the machine can read arguments', () => {
  const at = join(folder, 'arguments')
  cpSync(join(root, 'deploy'), join(at, 'deploy'), { recursive: true })
  for (const name of ['sed', 'head', 'base64', 'tr'])
    writeFileSync(join(at, name), `#!/bin/sh\nprintf '%s\\n' "$0 $*" >>'${at}/calls'\nPATH=\${PATH#*:} exec ${name} "$@"\n`, { mode: 0o755 })
  execFileSync(join(at, 'deploy/prepare'), ['sandbox'], { env: { PATH: `${at}:${process.env.PATH}` } })
  const calls = readFileSync(join(at, 'calls'), 'utf8')
  expect(calls).toContain(`${at}/sed`)
  const settings = ['', '.owner', '.postgres'].map((kind) => readFileSync(join(at, `deploy/sandbox${kind}.env`), 'utf8')).join('\n')
  const secrets = [...settings.matchAll(/(?:PASSWORD=|1:|bursar\w*:)([A-Za-z0-9+/]{32,}=*)/g)].map(([, secret]) => secret!)
  // The passwords of the superuser, the owner and the login, the pepper and the sealing key.
  expect(new Set(secrets).size).toBe(5)
  for (const secret of secrets) expect(calls).not.toContain(secret)
})

test("pins all images to the registry's digests or none, and --check refuses a tag without a digest", () => {
  const at = join(folder, 'pin')
  cpSync(join(root, 'deploy'), join(at, 'deploy'), { recursive: true })
  const pin = (stand_in: string, ...args: string[]) => {
    // The registry is not reachable here. A script named docker replaces its client.
    writeFileSync(join(at, 'docker'), `#!/bin/sh\nfor image; do :; done\n${stand_in}\n`, { mode: 0o755 })
    // Disables the GNU extensions of sed, because other systems have another sed.
    writeFileSync(join(at, 'sed'), '#!/bin/sh\nPATH=${PATH#*:} exec sed --posix "$@"\n', { mode: 0o755 })
    const { status, stdout } = spawnSync(join(at, 'deploy/pin'), args, { env: { PATH: `${at}:${process.env.PATH}` }, encoding: 'utf8' })
    return { status, stdout, images: read() }
  }
  const read = () =>
    ['compose.yaml', 'Dockerfile'].flatMap((file) =>
      [...readFileSync(join(at, 'deploy', file), 'utf8').matchAll(/^(?: *image: |ARG BASE=|FROM (?!\$))(\S+)/gm)].map(([, image]) => image!),
    )
  const tags = read().map((image) => image.split('@')[0]!)
  const bases = [...new Set(tags.filter((tag) => tag.includes(':')))]
  expect(bases).toHaveLength(3)
  const digestOf = (tag: string) => `${tag}@sha256:${createHash('sha256').update(tag).digest('hex')}`

  const digests = 'printf sha256:; printf %s "$image" | sha256sum | cut -d" " -f1'

  // An image that the registry does not know leaves the file unchanged.
  expect(pin(`case $image in redis*) exit 1 ;; esac; ${digests}`)).toMatchObject({
    status: 1,
    images: read(),
  })
  expect(pin('echo latest')).toMatchObject({ status: 1, stdout: expect.stringContaining('nothing was changed') as string })
  const unpinned = pin('exit 1', '--check')
  expect(unpinned.status).toBe(1)
  for (const tag of bases) expect(unpinned.stdout).toContain(tag)

  for (let turn = 0; turn < 2; turn++) {
    const pinned = pin(digests)
    expect([pinned.status, pinned.images]).toEqual([0, tags.map((tag) => (tag.includes(':') ? digestOf(tag) : tag))])
    expect(pin('exit 1', '--check').status).toBe(0)
  }

  // The script ends with a check, which reports an image reference that the script cannot change.
  const compose = join(at, 'deploy/compose.yaml')
  writeFileSync(compose, readFileSync(compose, 'utf8').replace(/image: redis:[^@\n]+@\S+/, 'image:  redis:7.4-bookworm'))
  expect(pin(digests)).toMatchObject({ status: 1, stdout: expect.stringMatching(/not pinned by digest; run deploy\/pin:\nredis:7\.4-bookworm\n$/) as string })
})

/** No container engine runs here. The image's commands run in a folder with its files, as a user who can write nowhere. */
test(
  'migrates a new database, serves with api and worker, reports health and stops on SIGTERM, by the commands of the image',
  { timeout: 300_000 },
  async () => {
    const at = join(folder, 'image')
    const sent = readIgnore(join(root, '.dockerignore'))
    const packages = join(folder, 'packages')
    for (const name of ['packages', 'production']) installed(stageOf(name), sent, packages)
    layOut(image, sent, at, packages)
    cluster = await openCluster()
    const server = new URL(cluster.url)
    const passwords = readSettings(join(folder, 'deploy/sandbox.postgres.env'))
    execFileSync(join(folder, 'deploy/postgres/init.sh'), {
      env: { PATH: process.env.PATH, PGHOST: server.hostname, PGPORT: server.port, ...passwords },
      stdio: 'pipe',
    })
    const owner = new pg.Client({ connectionString: `${cluster.url}/bursar` })
    await owner.connect()
    const { rows } = await owner.query(
      `select rolname, rolsuper or rolcreaterole as powerful, rolpassword is not null as secret from pg_authid where rolname in ('bursar_owner', 'bursar_login') order by 1`,
    )
    await owner.end()
    expect(rows).toEqual(['bursar_login', 'bursar_owner'].map((rolname) => ({ rolname, powerful: false, secret: true })))

    const touched = contained(['touch', 'server/src/main/cli.ts'], at, {})
    if (process.getuid?.() === 0) expect(await touched.exited).toBe(1)
    const ports = { api: await freePort(), admin: await freePort(), worker: await freePort() }
    const built = Object.fromEntries(said('ENV').words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]))
    const written = join(folder, 'data')
    if (process.getuid?.() === 0) execFileSync('install', ['-d', '-o', 'nobody', written])
    /** Returns the settings that compose would give a service. Replaces names and ports that only its networks know. */
    const settingsOf = (service: string, admin: number): Record<string, string> => {
      const given = Object.assign({}, ...compose.services[service]!.env_file!.map((file) => readSettings(join(folder, 'deploy', file)))) as Record<
        string,
        string
      >
      return {
        ...built,
        ...Object.fromEntries(
          Object.entries(given).map(([name, value]) => [name, value.replace('sandbox-postgres:5432', server.host).replace('sandbox-redis', '127.0.0.1')]),
        ),
        BURSAR_LISTEN: `127.0.0.1:${ports.api}`,
        BURSAR_ADMIN_LISTEN: `127.0.0.1:${admin}`,
        BURSAR_STORAGE_DIR: given.BURSAR_STORAGE_DIR!.replace('/data', written),
      }
    }
    const start = (service: string, admin: number, command = compose.services[service]!.command ?? said('CMD').words) => {
      const program = contained([...said('ENTRYPOINT').words, ...command], at, settingsOf(service, admin))
      running.push(program)
      return program
    }
    const healthy = (service: string, admin: number) => contained(said('HEALTHCHECK').words, at, settingsOf(service, admin)).exited

    const migrated = start('sandbox-migrate', ports.admin)
    expect([await migrated.exited, migrated.output()]).toEqual([0, expect.stringContaining('applied: 0001_foundation')])
    expect(await healthy('sandbox-api', ports.admin)).toBe(1)
    const api = start('sandbox-api', ports.admin)
    const worker = start('sandbox-worker', ports.worker)
    for (const [program, service, admin] of [
      [api, 'sandbox-api', ports.admin],
      [worker, 'sandbox-worker', ports.worker],
    ] as const) {
      const ended = program.exited.then((code) => {
        throw new Error(`${service} ended with ${code}:\n${program.output()}`)
      })
      await Promise.race([eventually(`the service ${service} is ready`, async () => program.output().includes('"msg":"serving"')), ended])
      expect(await healthy(service, admin)).toBe(0)
      expect((await exchange(admin, 'GET', '/readyz')).status).toBe(200)
    }
    expect((await exchange(ports.api, 'GET', '/2026-04/openapi.json')).status).toBe(200)
    // `doctor` finds only one problem: the mail server of the example settings cannot be reached.
    const doctor = start('sandbox-tools', ports.admin, [...compose.services['sandbox-tools']!.command!, '--json'])
    expect(await doctor.exited).toBe(1)
    const { checks } = JSON.parse(doctor.output()) as { checks: { name: string; state: string }[] }
    expect(checks.filter(({ state }) => state !== 'ok').map(({ name }) => name)).toEqual(['mail'])

    for (const program of [api, worker]) program.signal('SIGTERM')
    expect([await api.exited, await worker.exited]).toEqual([0, 0])
    expect(api.output()).toContain('"msg":"stopped"')
  },
)
