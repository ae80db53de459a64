import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { shown } from '../bench/src/results.ts'
import * as contract from '../contract/src/index.ts'
import { document } from '../contract/src/openapi.ts'
import { checkComplete } from '../server/src/main/wire.ts'

const run = promisify(execFile)
const command =
  (file: string, ...args: string[]) =>
  async () => {
    try {
      await run(`node_modules/.bin/${file}`, args, { maxBuffer: 1 << 26 })
      return []
    } catch (error) {
      const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
      return [`${stdout}${stderr}`.trim() || String(error)]
    }
  }

const { stdout } = await run('git', ['ls-files', '--cached', '--others', '--exclude-standard'])
const files = stdout.split('\n').filter((name) => name !== '')
const contents = new Map<string, string>()
for (const name of files)
  try {
    contents.set(name, readFileSync(name, 'utf8'))
  } catch {
    // Deleted in the work tree, not yet in the index.
  }

interface Rule {
  readonly pattern: RegExp
  readonly where: RegExp
  readonly except?: RegExp
  readonly why: string
}

/** What may be written only in one place, so that time, chance, the network and the tenant cannot slip past their seams. */
const seams: readonly Rule[] = [
  {
    pattern: /\bDate\.now\(|new Date\(\)/,
    where: /^server\/src\/.*\.ts$/,
    except: /^server\/src\/platform\/clock\.ts$|\.test\.ts$/,
    why: 'time comes from platform/clock',
  },
  {
    pattern: /\bMath\.random\(|\brandomUUID\(/,
    where: /^(server|contract)\/src\//,
    except: /\.test\.ts$/,
    why: 'chance comes from kernel/ids and kernel/secrets',
  },
  { pattern: /(?<![.\w])fetch\(/, where: /^server\/src\//, except: /^server\/src\/gateways\/|\.test\.ts$/, why: 'outbound calls go through gateways' },
  { pattern: /process\.env\b/, where: /^server\/src\//, except: /^server\/src\/main\/|\.test\.ts$/, why: 'configuration is read once, in main' },
  {
    pattern: /\b(?:db|tx)\.q\b/,
    where: /^server\/src\//,
    except: /\.sql\.ts$|^server\/src\/platform\/|\.test\.ts$/,
    why: 'rows are touched in .sql.ts files only',
  },
  { pattern: /\bnow\(\)/, where: /^server\/src\/modules\/.*\.sql\.ts$/, why: "time comes from platform/clock, not from the database's clock" },
]

/** Where packages are fetched from is the machine's business: an address in the repository would send everybody to one host. */
const hosts: Rule = {
  pattern: /\bregistry\.[a-z0-9-]+\.[a-z]+\b|\bnpmjs\.(org|com)\b|\b(deb|security|snapshot)\.debian\.org\b/,
  where: /./,
  why: 'no registry host in a committed file',
}

const breaches = (rules: readonly Rule[]) => async () =>
  [...contents].flatMap(([name, text]) =>
    rules
      .filter(({ where, except }) => where.test(name) && !except?.test(name))
      .flatMap(({ pattern, why }) =>
        text.split('\n').flatMap((line, at) => (pattern.test(line) && !line.trimStart().startsWith('//') ? [`${name}:${at + 1}: ${why}`] : [])),
      ),
  )

const catalogues = async () => {
  checkComplete()
  const names = new Map(
    Object.entries(contract).flatMap(([name, value]) => (typeof value === 'object' && 'kind' in value && 'when' in value ? [[value.kind, name] as const] : [])),
  )
  const sources = [...contents].filter(([name]) => /^server\/src\/modules\/.*(?<!\.test)\.ts$/.test(name)).map(([, text]) => text)
  return contract.webhooks
    .filter(
      ({ kind }) =>
        !sources.some((text) =>
          new RegExp(`(\\bemit(Each)?\\(\\s*tx,\\s*|\\bemitAll\\(\\s*tx,\\s*\\[[^\\]]*|\\bkinds\\.push\\()${names.get(kind)}\\b`).test(text),
        ),
    )
    .map(({ kind }) => `webhook ${kind} is declared and emitted nowhere`)
}

const openapi = async () =>
  contract.versions
    .filter((version) => readFileSync(`contract/openapi/${version}.json`, 'utf8') !== `${JSON.stringify(document(version), null, 2)}\n`)
    .map((version) => `contract/openapi/${version}.json is not what the declarations say. Run: pnpm contract`)

/** Measured figures are copied by a command, never by hand. */
const figures = async () =>
  shown()
    .filter(({ text, wanted }) => text !== wanted)
    .map(({ file }) => `${file} shows other figures than bench/results. Run: pnpm bench readme`)

/** A planted bug that no longer fits tries no guard. */
const planted = async () => {
  const names = files.filter((name) => /^server\/test\/planted\/.*\.patch$/.test(name))
  const fits = await Promise.all(
    names.map((name) =>
      run('patch', ['-p1', '--dry-run', '--silent', '-i', name]).then(
        () => true,
        () => false,
      ),
    ),
  )
  return names.filter((_, at) => !fits[at]).map((name) => `${name} does not apply any more: write it for the code as it is`)
}

const checks: Record<string, () => Promise<string[]>> = {
  types: command('tsc', '-p', '.'),
  lint: command('oxlint', '--type-aware'),
  format: command('oxfmt', '--check'),
  'import line': command('depcruise', 'contract/src', 'server/src', 'web/src', '--output-type', 'err'),
  seams: breaches(seams),
  catalogues,
  openapi,
  figures,
  'planted bugs': planted,
  hosts: breaches([hosts]),
}

let failed = 0
for (const [name, check] of Object.entries(checks)) {
  const problems = await check().catch((error: unknown) => [String(error)])
  console.log(`${problems.length === 0 ? 'ok  ' : 'FAIL'} ${name}`)
  for (const problem of problems) console.log(problem.replace(/^/gm, '     '))
  if (problems.length > 0) failed++
}
console.log(`${Object.keys(checks).length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
