import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { posix } from 'node:path'
import { promisify } from 'node:util'
import { shown } from '../bench/src/results.ts'
import { addExamples, exampleProblems, type Examples } from '../contract/src/documentation/examples.ts'
import * as contract from '../contract/src/index.ts'
import { describe } from '../contract/src/openapi.ts'
import { checkComplete } from '../server/src/main/wire.ts'
import { compactTree, mismatches, mutantName, parseMutant } from '../server/test/faults/mutants/mutants.ts'
import { superLinear } from './expressions.ts'
import { folderCircles } from './folders.ts'
import { findVague } from './plain.ts'
import { checkProof } from './proof.ts'
import { checkRequirements } from './requirements.ts'

const run = promisify(execFile)
/**
 * The compiler and the linter check the types of a file in each of their threads that needs them. On two cores, one
 * thread each takes half the CPU time, and the two programs run beside each other.
 */
const threads = availableParallelism() > 2 ? {} : { GOMAXPROCS: '1' }
const oneThread = availableParallelism() > 2 ? [] : ['--singleThreaded']
const command = (file: string, ...args: string[]) => program(`node_modules/.bin/${file}`, ...args)
const program =
  (file: string, ...args: string[]) =>
  async () => {
    try {
      await run(file, args, { maxBuffer: 1 << 26, env: { ...process.env, ...threads } })
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
    // Skips a file that is deleted in the work tree, but still in the index.
  }

interface Rule {
  readonly pattern: RegExp
  readonly where: RegExp
  readonly except?: RegExp
  readonly why: string
}

/** Calls that are allowed in one place only. The rules keep time, randomness, network access and tenant scope behind their abstractions. */
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
  // `reference-examples.ts` writes code for readers as text, and runs none of it.
  {
    pattern: /(?<![.\w])fetch\(/,
    where: /^server\/src\//,
    except: /^server\/src\/gateways\/|\/reference-examples\.ts$|\.test\.ts$/,
    why: 'outbound calls go through gateways',
  },
  {
    pattern: /process\.env\b/,
    where: /^server\/src\//,
    except: /^server\/src\/main\/|\/reference-examples\.ts$|\.test\.ts$/,
    why: 'configuration is read once, in main',
  },
  {
    pattern: /\b(?:db|tx)\.q\b/,
    where: /^server\/src\//,
    except: /\.sql\.ts$|^server\/src\/platform\/|\.test\.ts$/,
    why: 'rows are touched in .sql.ts files only',
  },
  { pattern: /=== 1 \?/, where: /^web\/src\/.*\/(de|en|texts)\.ts$/, why: 'plural forms come from pluralIn' },
  { pattern: /\bnow\(\)/, where: /^server\/src\/modules\/.*\.sql\.ts$/, why: "time comes from platform/clock, not from the database's clock" },
]

/** The package registry is configured on each machine. A registry host in the repository would override that for every installation. */
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

/** Finds contract files that no entry point imports, and operations and webhooks that contract/src/index.ts does not list. */
const unregistered = async (): Promise<string[]> => {
  const { exports: entries } = JSON.parse(contents.get('contract/package.json')!) as { exports: Record<string, string> }
  const reached = new Set<string>()
  const visit = (file: string): void => {
    if (reached.has(file)) return
    reached.add(file)
    for (const [, path] of contents.get(file)!.matchAll(/\bfrom '(\.[^']+)'/g)) visit(posix.join(posix.dirname(file), path!))
  }
  for (const entry of Object.values(entries)) if (entry.endsWith('.ts')) visit(posix.join('contract', entry))
  const sources = [...contents.keys()].filter((name) => /^contract\/src\/.*(?<!\.test)\.ts$/.test(name))
  const registered = new Set<unknown>([...contract.operations, ...contract.webhooks])
  const problems: string[] = []
  for (const file of sources) {
    if (!reached.has(file)) {
      problems.push(`${file}: no file of the contract imports it. Export it in contract/src/index.ts and add it to the list there`)
      continue
    }
    for (const [name, value] of Object.entries((await import(`../${file}`)) as Record<string, unknown>)) {
      const isDeclared = typeof value === 'object' && value !== null && (('method' in value && 'access' in value) || ('kind' in value && 'when' in value))
      if (isDeclared && !registered.has(value)) problems.push(`${file}: ${name} is not registered. Add the file to the list in contract/src/index.ts`)
    }
  }
  return problems
}

const catalogues = async () => {
  checkComplete()
  const names = new Map(
    Object.entries(contract).flatMap(([name, value]) => (typeof value === 'object' && 'kind' in value && 'when' in value ? [[value.kind, name] as const] : [])),
  )
  const sources = [...contents].filter(([name]) => /^server\/src\/modules\/.*(?<!\.test)\.ts$/.test(name)).map(([, text]) => text)
  const unheard = contract.webhooks
    .filter(
      ({ kind }) =>
        !sources.some((text) =>
          new RegExp(
            `(\\bemit(Each)?\\(\\s*(?:tx|inWallTime\\(tx\\)),\\s*|\\bemitAll\\(\\s*(?:tx|inWallTime\\(tx\\)),\\s*\\[[^\\]]*|\\bkinds\\.push\\()${names.get(kind)}\\b`,
          ).test(text),
        ),
    )
    .map(({ kind }) => `webhook ${kind} is declared and emitted nowhere`)
  return [...unheard, ...(await unregistered())]
}

/** Checks that the OpenAPI documents are up to date. Each field and parameter has a description, and each operation a valid example. */
const openapi = async () => {
  const examples = JSON.parse(contents.get('contract/examples/examples.json')!) as Examples
  const gaps = contract.versions.flatMap((version) => {
    const { document, missing, unused } = describe(version)
    addExamples(document, examples)
    return [
      ...(readFileSync(`contract/openapi/${version}.json`, 'utf8') === `${JSON.stringify(document, null, 2)}\n`
        ? []
        : [`contract/openapi/${version}.json is not what the declarations say. Run: pnpm contract`]),
      ...missing.map((name) => `${name} has no description. Describe it at its declaration, or in contract/src/documentation`),
      ...unused.map((key) => `contract/src/documentation describes ${key}, which nothing uses`),
    ]
  })
  return [...gaps, ...exampleProblems(examples)]
}

/** Checks that the measured figures in documents match bench/results. */
const figures = async () =>
  shown()
    .filter(({ text, wanted }) => text !== wanted)
    .map(({ file }) => `${file} shows other figures than bench/results. Run: pnpm bench docs`)

/** Checks that each mutant still matches its code and its test. A mutant that does not match proves nothing. */
const mutants = async () => {
  const tree = compactTree(contents)
  const found = [...contents].flatMap(([file, text]) => {
    const name = mutantName(file)
    return name === undefined ? [] : [parseMutant(name, text)]
  })
  return found.length === 0 ? ['there are no mutants'] : found.flatMap((mutant) => mismatches(mutant, tree, contents))
}

/** The allowed numbers of prose findings. These numbers may only be lowered. */
const allowed = JSON.parse(contents.get('scripts/plain.json')!) as { comments: number; documents: number }

const hold = (found: number, key: keyof typeof allowed, list: string): string[] => {
  if (found === allowed[key]) return []
  if (found < allowed[key]) return [`scripts/plain.json allows ${allowed[key]} in ${key}. Write ${found} there: the number may only fall.`]
  return [`There are ${found} findings in ${key}, ${allowed[key]} are allowed. List them: ${list}`]
}

/** Comments and test titles with a vague subject (docs/style.md). */
const plain = async () => {
  const found = [...contents].flatMap(([file, text]) => (/\.(tsx?|c?js)$/.test(file) ? findVague(file, text) : []))
  console.log(`     plain: ${found.length}`)
  return hold(found.length, 'comments', 'node scripts/plain.ts')
}

/** Documents with vague subjects or long sentences. */
const prose = async () => {
  const args = ['--rulesdir', 'scripts/textlint', ...files.filter((name) => /^[^/]+\.md$|^docs\/.*\.md$/.test(name) && contents.has(name))]
  const { stdout: report } = await run('node_modules/.bin/textlint', ['--format', 'json', ...args], { maxBuffer: 1 << 26 }).catch(
    (error: { stdout: string }) => error,
  )
  const found = (JSON.parse(report) as { messages: unknown[] }[]).reduce((sum, { messages }) => sum + messages.length, 0)
  return hold(found, 'documents', `node_modules/.bin/textlint --rulesdir scripts/textlint '*.md' docs`)
}

/**
 * Checks that each command and test folder in the jobs on GitHub exists. These jobs run on GitHub only, so a rename
 * would go unnoticed locally.
 */
const workflows = async () => {
  const { scripts } = JSON.parse(contents.get('package.json')!) as { scripts: Record<string, string> }
  return [...contents]
    .filter(([name]) => name.startsWith('.github/workflows/'))
    .flatMap(([name, text]) => [
      ...[...text.matchAll(/\bpnpm --silent ([\w:-]+)/g)]
        .filter(([, script]) => scripts[script!] === undefined)
        .map(([found]) => `${name}: no command "${found}"`),
      ...[...text.matchAll(/\bserver\/test\/\w+\//g)]
        .filter(([folder]) => !files.some((file) => file.startsWith(folder)))
        .map(([folder]) => `${name}: no folder ${folder}`),
    ])
}

const checks: Record<string, () => Promise<string[]>> = {
  // The dashboard runs in the browser, so its types differ from those of the server.
  types: async () => [...(await command('tsc', '-p', '.', ...oneThread)()), ...(await command('tsc', '-p', 'web/dashboard', '--noEmit', ...oneThread)())],
  lint: command('oxlint', '--type-aware'),
  format: command('oxfmt', '--check'),
  'import line': command('depcruise', 'contract/src', 'server/src', 'views/src', 'web/src', 'web/dashboard', '--output-type', 'err'),
  folders: async () => folderCircles(),
  lines: async () =>
    [...contents]
      .filter(
        ([file]) => /^(bench|contract|scripts|server|views|web)\/.*\.(tsx?|css|js)$/.test(file) && !/\.test\.ts$|^server\/test\/|\/(en|de)\.ts$/.test(file),
      )
      .flatMap(([file, text]) => (text.split('\n').length > 401 ? [`${file} has more than 400 lines. Split it.`] : [])),
  seams: breaches(seams),
  'dashboard size': program(process.execPath, 'web/dashboard/scripts/size.ts'),
  expressions: () => superLinear(contents),
  catalogues,
  openapi,
  figures,
  proof: checkProof,
  mutants,
  requirements: async () => checkRequirements(),
  workflows,
  plain,
  prose,
  hosts: breaches([hosts]),
}

// `pnpm check catalogues openapi` runs only these steps.
const chosen = process.argv.slice(2)
const unknown = chosen.find((name) => !(name in checks))
if (unknown !== undefined) throw new Error(`there is no step ${unknown}. Steps: ${Object.keys(checks).join(', ')}`)
const steps = Object.entries(checks).filter(([name]) => chosen.length === 0 || chosen.includes(name))
const results = new Map(steps.map(([name]) => [name, Promise.withResolvers<string[]>()]))
const waiting = [...steps]
/** Runs the steps one after the other, until none is left. */
const runSteps = async () => {
  for (let step = waiting.shift(); step !== undefined; step = waiting.shift())
    results.get(step[0])!.resolve(await step[1]().catch((error: unknown) => [String(error)]))
}
// Two steps at a time: the types and the linter take longest, and each of them keeps a core busy.
void runSteps()
void runSteps()
let failed = 0
for (const [name, { promise }] of results) {
  const problems = await promise
  console.log(`${problems.length === 0 ? 'ok  ' : 'FAIL'} ${name}`)
  for (const problem of problems) console.log(problem.replace(/^/gm, '     '))
  if (problems.length > 0) failed++
}
console.log(`${steps.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0
