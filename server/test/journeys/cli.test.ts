import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { buildProgram } from '../../src/main/program.ts'
import { launch } from '../harness/process.ts'
import { variables } from '../harness/world.ts'

let home: string
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'bursar-cli-'))
})
afterAll(() => rmSync(home, { recursive: true }))

const run = async (args: readonly string[], settings: Record<string, string> = {}) => {
  const program = launch(args, { XDG_CONFIG_HOME: join(home, 'config'), ...settings }, home)
  return { code: await program.exited, output: program.output() }
}

// Nothing listens on port 1.
const stopped = { BURSAR_API: 'http://127.0.0.1:1', BURSAR_TOKEN: 'bursar_oat_x' }
const noDatabase = variables({ url: 'postgres://nobody@127.0.0.1:1/x', owner_url: 'postgres://nobody@127.0.0.1:1/x' }, 'smtp://127.0.0.1:1')
const needsServer = 'Check that the server runs (pnpm bursar dev, or pnpm bursar serve), and that BURSAR_API or --api is its address'

/** Wrong calls with the last line of their output. It names the mistake, the allowed input and the next step. */
const wrong: readonly { call: string; says: string | RegExp; code?: 1 | 2; settings?: Record<string, string> }[] = [
  { call: 'lisen', says: 'there is no command lisen. Did you mean listen? pnpm bursar --help lists all commands' },
  { call: 'token lst', says: 'there is no command token lst. Did you mean list? pnpm bursar token takes create, list or revoke' },
  { call: 'members', says: 'pnpm bursar members takes status, rehearse, prepare, switch, undo, seal or map. pnpm bursar members --help shows its usage' },
  {
    call: 'token list --organisation acme',
    says: 'pnpm bursar token list has no flag --organisation. Did you mean --organization? Its flags: --organization, --env, --dir, --json',
  },
  {
    call: 'token create --organization acme',
    says: '--comment and --scopes are needed (what the token is for; what it may do, such as orders:read,products:write): pnpm bursar token create --organization <slug> --comment <text> --scopes <a,b>',
  },
  { call: 'doctor now', says: 'pnpm bursar doctor takes no arguments, but was also given: now. pnpm bursar doctor --help shows its usage' },
  { call: '--api http://127.0.0.1:1 doctor', says: 'pnpm bursar doctor has no flag --api. pnpm bursar doctor --help shows its usage' },
  { call: 'listen http://127.0.0.1:1 --after', says: '--after needs a value: --after <n>' },
  { call: 'serve --env staging', says: "option '--env <environment>' argument 'staging' is invalid. Allowed choices are sandbox, production." },
  { call: 'serve --roles api,wroker', says: '--roles takes api, worker or both, not wroker' },
  {
    call: 'listen localhost:3000/hooks',
    settings: stopped,
    says: 'listen takes an address that begins with http:// or https://, not "localhost:3000/hooks". Did you mean http://localhost:3000/hooks?',
  },
  {
    call: 'members status',
    settings: { ...stopped, BURSAR_API: 'localhost:4100' },
    says: 'BURSAR_API takes an address that begins with http:// or https://, not "localhost:4100". Did you mean http://localhost:4100?',
  },
  { call: 'members status', code: 1, settings: stopped, says: `there is no answer from http://127.0.0.1:1 (ECONNREFUSED). ${needsServer}` },
  { call: 'listen http://127.0.0.1:1', code: 1, settings: stopped, says: `there is no answer from http://127.0.0.1:1 (ECONNREFUSED). ${needsServer}` },
  { call: 'orders export', code: 1, settings: stopped, says: `there is no answer from http://127.0.0.1:1 (ECONNREFUSED). ${needsServer}` },
  {
    call: 'token list --organization acme',
    code: 1,
    settings: noDatabase,
    says: 'the database does not answer. Is PostgreSQL running, and is BURSAR_DATABASE_URL right?',
  },
  {
    call: 'orders export --out missing/orders.csv',
    settings: stopped,
    says: /the folder \S+\/missing of --out does not exist\. Create it, or choose another$/,
  },
  { call: 'trigger order.payed', settings: stopped, says: /^there is no event type order\.payed\. Did you mean order\.paid\? Available: checkout\.created, / },
  {
    call: 'trigger order.paid --override produkt.name=Poster',
    settings: stopped,
    says: 'order.paid creates no produkt. Did you mean product? Its objects: product, customer, checkout, payment',
  },
  {
    call: 'trigger order.paid --override product',
    settings: stopped,
    says: '--override takes object.field=value, not "product". Example: product.name=Poster',
  },
  {
    call: 'token list --organization acme --dir nowhere',
    says: /^no sandbox runs with the data in \S+\/nowhere\. Start it with: pnpm bursar dev --dir \S+\/nowhere$/,
  },
  { call: 'help tokn', says: 'there is no command tokn. Did you mean token? pnpm bursar --help lists all commands' },
  {
    call: 'dev --port 4200',
    says: /^pnpm bursar dev has no flag --port\. The address is a setting: BURSAR_LISTEN=127\.0\.0\.1:4200, with BURSAR_ADMIN_LISTEN=127\.0\.0\.1:4201\. Its flags: --fresh/,
  },
  {
    call: 'listen 3000/hooks',
    settings: stopped,
    says: 'listen takes an address that begins with http:// or https://, not "3000/hooks". Did you mean http://localhost:3000/hooks?',
  },
  { call: 'api GETT /v1/products/', settings: stopped, says: /^there is no method GETT\. Did you mean GET\? Write: pnpm bursar api GET\|POST/ },
  { call: 'api GET v1/products/', settings: stopped, says: /^the path begins with \/v1\/, not "v1\/products\/"\. Write: / },
  { call: 'api POST /v1/products/ --data @product.json', settings: stopped, says: /^--data takes the JSON itself, and reads no file\./ },
  { call: 'api GET /v1/products/', settings: { BURSAR_API: stopped.BURSAR_API }, says: /no token is needed if neither BURSAR_API nor --api is given$/ },
  { call: 'serve', code: 1, says: /write a \.env for this machine: pnpm bursar init\. A sandbox without setup: pnpm bursar dev$/ },
  { call: 'completion fish', says: 'there is a completion for bash and zsh, not for fish. Example: pnpm bursar completion bash' },
  {
    call: 'token revoke --organization acme',
    says: '--id is needed (the id of the token): pnpm bursar token revoke --organization <slug> --id <id>',
  },
  {
    call: 'listen http://localhost:99999/hooks',
    settings: stopped,
    says: 'listen takes an address with a host and a port up to 65535, not "http://localhost:99999/hooks". Example: http://localhost:3000',
  },
  {
    call: 'api GET /v1/products/',
    settings: { BURSAR_API: stopped.BURSAR_API },
    says: /pnpm bursar token create --organization <slug> --comment <text> --scopes <a,b>/,
  },
]

test('answers each wrong call with the mistake, the allowed input and the next step', async () => {
  // Three at a time, because each call is a process.
  const left = [...wrong]
  const work = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      const { call, says, code = 2, settings = {} } = one
      const answer = await run(call.split(' '), settings)
      const last = answer.output
        .trimEnd()
        .split('\n')
        .at(-1)!
        .replace(/^bursar: /, '')
      expect([call, answer.code, last]).toEqual([call, code, typeof says === 'string' ? says : expect.stringMatching(says)])
    }
  }
  await Promise.all([work(), work(), work()])
})

test('refuses the answer of a server that is not Bursar', async () => {
  const other = createServer((_, answer) => answer.end('ok')).listen(0, '127.0.0.1')
  await once(other, 'listening')
  onTestFinished(() => void other.close())
  const address = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
  for (const call of ['api GET /v1/products/', 'orders export', 'members status']) {
    const answer = await run(call.split(' '), { BURSAR_API: address, BURSAR_TOKEN: 'bursar_oat_x' })
    expect([call, answer.code, answer.output]).toEqual([call, 1, expect.stringContaining(`${address} answered 200, but it is no Bursar server.`)])
  }
})

test('shows help for every command with its own flags, the version, and no stack trace', async () => {
  const help = async (...args: string[]) => {
    const { code, output } = await run([...args])
    expect([args, code]).toEqual([args, 0])
    return output
  }
  const all = await help('--help')
  expect(await help()).toBe(all)
  for (const name of buildProgram().commands.map((one) => one.name())) expect(all).toMatch(new RegExp(`^  ${name}\\b`, 'm'))
  expect(await help('token', 'create', '--help')).toMatch(/--scopes <a,b>[^]*--days <n>/)
  expect(await help('help', 'token')).toContain('token revoke')
  expect(await help('--version')).toBe(`${(JSON.parse(readFileSync('server/package.json', 'utf8')) as { version: string }).version}\n`)
})

test('keeps the secret of listen per user, and takes none from the current folder', async () => {
  const folders = ['one', 'two'].map((name) => join(home, name))
  for (const folder of folders) mkdirSync(folder, { recursive: true })
  mkdirSync(join(folders[0]!, '.bursar'))
  writeFileSync(join(folders[0]!, '.bursar/listen-secret'), 'whsec_ZWFybGllcg==\n')
  const printed = []
  for (const folder of folders) {
    const program = launch(['listen', '--print-secret', '--json'], { XDG_CONFIG_HOME: join(home, 'secrets') }, folder)
    expect(await program.exited).toBe(0)
    printed.push((JSON.parse(program.output()) as { secret: string }).secret)
  }
  expect(printed[0]).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(printed[0]).not.toBe('whsec_ZWFybGllcg==')
  expect(printed[1]).toBe(printed[0])
})

test('completes commands, flags and event types in bash', async () => {
  const { output: script } = await run(['completion', 'bash'])
  const complete = (...words: string[]) =>
    execFileSync(
      'bash',
      ['-c', `${script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _bursar; printf '%s\\n' "\${COMPREPLY[@]}"`, 'bash', 'bursar', ...words],
      {
        encoding: 'utf8',
        cwd: home,
      },
    )
      .trim()
      .split('\n')
  expect(complete('tok')).toEqual(['token'])
  expect(complete('token', '')).toEqual(['create', 'list', 'revoke'])
  expect(complete('token', 'create', '--s')).toEqual(['--scopes'])
  expect(complete('token', 'create', '--organization', 'acme', '--c')).toEqual(['--comment'])
  expect(complete('trigger', 'order.p')).toEqual(['order.paid'])
  expect((await run(['completion', 'zsh'])).output).toContain('compdef _bursar bursar')
})
