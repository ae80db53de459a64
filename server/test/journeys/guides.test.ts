import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { createProduct } from '@bursar/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from '../harness/world.ts'

// Runs the code of the guides as a reader does: each page is one program, and its commands run afterwards in a shell.
let world: World
let folder: string
beforeAll(async () => {
  world = await openWorld({ worker: true, browser: true, settings: { BURSAR_EGRESS_LOOPBACK: 'true' } })
  folder = mkdtempSync(join(tmpdir(), 'guides-'))
  // The unmodified client, under its own name. The workspace has two versions of it under other names.
  install('.', { '@polar-sh/sdk': 'server/node_modules/polar-sdk' })
  const shop = 'examples/hono-shop/node_modules'
  install('adapters', { '@polar-sh/sdk': 'server/node_modules/polar-sdk-strict', '@polar-sh/hono': `${shop}/@polar-sh/hono`, hono: `${shop}/hono` })
  writeFileSync(join(folder, 'bursar.ts'), codeOf('README.md')[0]!.text)
  for (const page of pages)
    writeFileSync(
      join(folder, fileOf(page)),
      codeOf(page)
        .map(({ text }) => `${text}console.log('${mark}')\n`)
        .join('\n'),
    )
})
afterAll(async () => {
  await world.close()
  rmSync(folder, { recursive: true })
})

const root = new URL('../../../', import.meta.url).pathname

/** Makes a folder of the reader, with packages of the workspace. */
const install = (name: string, packages: Record<string, string>) => {
  for (const [wanted, source] of Object.entries(packages)) {
    const link = join(folder, name, 'node_modules', wanted)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(realpathSync(join(root, source)), link)
  }
  writeFileSync(join(folder, name, 'package.json'), '{ "type": "module" }')
}

/** Printed between the blocks of a guide. */
const mark = '--- next block ---'
/** The shell function of the quickstart that the guides use. */
const field = /^field\(\) .*$/m.exec(readFileSync(join(root, 'README.md'), 'utf8'))![0]

interface Block {
  readonly language: string
  readonly text: string
  /** The documented output. Undefined if the page shows none. */
  readonly output: string | undefined
}

/** Returns the blocks of code of a guide. A `text` block directly behind a block is the output of that block. */
const blocks = (page: string): Block[] =>
  [...readFileSync(join(root, 'docs/guides', page), 'utf8').matchAll(/^```(ts|sh)\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?/gms)].map(
    ([, language, text, output]) => ({ language: language!, text: text!, output }),
  )

const codeOf = (page: string) => blocks(page).filter(({ language }) => language === 'ts')
const fileOf = (page: string) => (page === 'adapters.md' ? 'adapters/guide.ts' : page.replace('.md', '.ts'))

/** Compares lines. An ellipsis in the documented output stands for any text, such as an id. */
const expectOutput = (printed: string, documented: string) => {
  const escaped = documented.trim().replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  // Lines of an exported file end with CR LF.
  expect(printed.replaceAll('\r', '').trim()).toMatch(new RegExp(`^${escaped.replaceAll('…', '[^\\n]*')}$`))
}

const run = async (command: string, args: readonly string[], env: Record<string, string>, typed?: () => Promise<string>) => {
  const child = spawn(command, args, { cwd: folder, env: { PATH: process.env.PATH, ...env }, stdio: [typed ? 'pipe' : 'ignore', 'pipe', 'pipe'] })
  let out = ''
  let errors = ''
  child.stdout!.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr!.on('data', (chunk: Buffer) => (errors += chunk.toString()))
  if (typed) child.stdin!.write(`${await typed()}\n`)
  const [code] = (await once(child, 'close')) as [number | null]
  expect([code, errors]).toEqual([0, ''])
  return out.split(`${mark}\n`)
}

/** Creates an organization with the products of the quickstart, and returns the variables that the quickstart exports. */
const openSandbox = async () => {
  const { organization, api } = await world.shop()
  const fixed = { amount_type: 'fixed' as const, price_amount: 2900, price_currency: 'usd' as const }
  const tiers = [{ min_seats: 1, max_seats: null, price_per_seat: 1200 }]
  const seats = { amount_type: 'seat_based' as const, price_currency: 'usd' as const, seat_tiers: { tiers } }
  return {
    BURSAR_API: world.config.public_url.origin,
    BURSAR_TOKEN: (await organization.token()).secret.reveal(),
    OPERATOR_TOKEN: (await (await world.person({ is_operator: true })).token()).secret.reveal(),
    SHOP_TOKEN: (await organization.token(['products:read', 'checkouts:write'])).secret.reveal(),
    PRODUCT: (await api.call(createProduct, { body: { name: 'Field guide', prices: [fixed] } })).id,
    PLAN: (await api.call(createProduct, { body: { name: 'Team plan', recurring_interval: 'month', prices: [seats] } })).id,
  }
}

/** Text that the reader types into the program of a page. */
const typed: Record<string, () => Promise<string>> = {
  'seats.md': async () => /https?:\S+\/claim\?token=\S+/.exec((await world.mail.next('grace@example.com')).text)![0],
}

/** Pages without code for the official client. Other tests run the code of most of them. */
const others = [
  'README.md',
  'brand.md',
  'checkout-links.md',
  'clocks.md',
  'correct-usage.md',
  'customer-state.md',
  'dashboard-api.md',
  'invoices.md',
  'member-migration.md',
  'meters.md',
  'metrics.md',
  'off-session.md',
  'self-host.md',
  'show-a-balance.md',
  'stop-at-a-limit.md',
  'stripe.md',
  'tax.md',
  'usage-billing.md',
  'usage.md',
]
const pages = readdirSync(join(root, 'docs/guides')).filter((name) => name.endsWith('.md') && !others.includes(name))

test.each(pages)('runs the code of %s, and prints the documented output', async (page) => {
  const env = await openSandbox()
  const program = codeOf(page)
  expect(program.length).toBeGreaterThan(0)
  const printed = await run(process.execPath, [fileOf(page)], env, typed[page])
  program.forEach(({ output = '' }, at) => expectOutput(printed[at]!, output))

  const commands = blocks(page).filter(({ language, text }) => language === 'sh' && text.includes('curl'))
  if (commands.length === 0) return
  const script = [field, ...commands.map(({ text }) => `${text}echo; echo '${mark}'`)].join('\n')
  const shown = await run('bash', ['-euo', 'pipefail', '-c', script], env)
  commands.forEach(({ output = '' }, at) => expectOutput(shown[at]!, output))
})

test('the programs of all guides have no type errors, also with the strictest options', async () => {
  const options = {
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    target: 'esnext',
    module: 'nodenext',
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts', 'adapters/*.ts'] }))
  const { stdout } = await promisify(execFile)(join(root, 'node_modules/.bin/tsc'), ['-p', folder, '--singleThreaded']).catch(
    (error: { stdout: string }) => error,
  )
  expect(stdout).toBe('')
})
