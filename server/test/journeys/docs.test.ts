import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { cards } from '../../src/gateways/payments/test/cards.ts'
import { accountLimits, fileLimits, pageSizeLimit, rateLimits, requestLimits } from '@bursar/contract'
import { budgetsOf } from '../../src/http/budget.ts'
import { invitationLife } from '../../src/modules/billing/seats/assigning.ts'
import { lifetimes } from '../../src/modules/identity/oauth/adapters.ts'
import { days, seconds } from '../../src/platform/clock.ts'
import { buildProgram } from '../../src/main/program.ts'
import { readConfig } from '../../src/platform/config.ts'
import { documentedVerifier } from '../harness/licences.ts'

const root = new URL('../../../', import.meta.url).pathname
const pages = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((name) => name !== '')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

test('no page of the documentation has a broken link', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !existsSync(join(root, dirname(page), link)))
      .map((link) => `${page} → ${link}`),
  )
  expect(broken).toEqual([])
})

test('the README links every guide and the page on limits', () => {
  const guides = pages.filter((page) => /^docs\/(guides\/[^/]+|limits)\.md$/.test(page))
  expect(guides).toContain('docs/guides/http.md')
  expect(guides.filter((page) => !read('README.md').includes(`](${page})`))).toEqual([])
})

const program = buildProgram()
/** Returns the command that a line of a page calls, or undefined if there is none of this name. */
const commandOf = (words: readonly string[]) => {
  const first = program.commands.find((one) => one.name() === words[0])
  return first && first.commands.length > 0 ? first.commands.find((one) => one.name() === words[1]) : first
}

test('every command that a page names exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  for (const page of pages)
    for (const [line, command, rest = ''] of read(page).matchAll(/\bpnpm ([a-z]+(?::[a-z]+)?)((?: [a-z-]+)*)/g)) {
      expect(Object.keys(scripts), `${page}: pnpm ${command}`).toContain(command)
      const words = rest.trim().split(' ')
      if (command === 'bursar' && words[0] !== '')
        expect(
          program.commands.map((one) => one.name()),
          `${page}: ${line}`,
        ).toContain(words[0])
    }
})

test('every flag of our commands that a page names exists', () => {
  let checked = 0
  for (const page of pages)
    for (const [line, text] of read(page).matchAll(/\bbursar ((?:[a-z-]+ )+[^`\n|#]*--[a-z][^`\n|#]*)/g)) {
      const words = text!.split(/\s+/)
      const command = commandOf(words)
      if (!command) continue
      const known = command.options.map(({ long }) => long!)
      for (const [, option] of line.matchAll(/ (--[a-z-]+)/g)) {
        checked++
        expect(known, `${page}: ${line}`).toContain(option)
      }
    }
  expect(checked).toBeGreaterThan(20)
})

test('the configuration page lists exactly the existing settings', () => {
  const [settings, commands] = read('docs/configuration.md').split('## Read by commands')
  const named = (part: string) => [...part.matchAll(/^\| `(BURSAR_\w+)`/gm)].map(([, name]) => name!)
  const listed = named(settings!)
  const unknown = (names: string[]) => {
    try {
      readConfig(Object.fromEntries(names.map((name) => [name, 'x'])))
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  expect(unknown(listed)).not.toContain('not a setting')
  const known = [...read('server/src/platform/config.ts').matchAll(/^ {2}(BURSAR_\w+):/gm)].map(([, name]) => name!)
  expect(listed.toSorted()).toEqual(known.toSorted())
  // Variables that only commands read are not server settings, but are not refused as unknown either.
  expect(named(commands!)).toEqual(['BURSAR_API', 'BURSAR_TOKEN'])
  expect(unknown(named(commands!))).not.toContain('not a setting')
})

test('exports every shell variable of a guide in the quickstart, or sets it in the guide', () => {
  // Ignores JavaScript template literals inside a command.
  const shell = (page: string) => [...read(page).matchAll(/^ *```sh\n(.*?)^ *```$/gms)].map(([, text]) => text!.replaceAll(/`[^`\n]*`/g, '')).join('\n')
  const setIn = (text: string) => new Set([...text.matchAll(/(?:^|[\s;(])([A-Za-z_]\w*)=/gm)].map(([, name]) => name!))
  const exported = new Set([...read('server/src/main/dev.ts').matchAll(/^ {4}([A-Z_]+): /gm)].map(([, name]) => name!))
  for (const name of ['BURSAR_API', 'BURSAR_TOKEN', 'PRODUCT', 'PLAN', 'RECEIVER']) expect([...exported]).toContain(name)
  const quickstart = new Set([...exported, ...setIn(/^## Quickstart\n(.*?)^## /ms.exec(read('README.md'))![1]!)])
  const guides = pages.filter((page) => page.startsWith('docs/guides/'))
  const used = guides.map((page) => {
    const text = shell(page)
    const names = [...new Set([...text.matchAll(/(?<!\\)\$\{?([A-Za-z_]\w*)/g)].map(([, name]) => name!))].filter((name) => !setIn(text).has(name))
    return { page, names }
  })
  expect(used.flatMap(({ names }) => names)).toContain('BURSAR_TOKEN')
  expect(used.flatMap(({ page, names }) => names.filter((name) => !quickstart.has(name)).map((name) => `${page}: $${name}`))).toEqual([])
  // A guide that needs the environment of the quickstart links to it, or to the section of the index that does.
  const needing = used.filter(({ names }) => names.length > 0).map(({ page }) => page)
  expect(needing.filter((page) => !/README\.md#(quickstart|before-you-start)/.test(read(page)))).toEqual([])
})

test('the compatibility page lists the differences that integrations meet', () => {
  const page = read('docs/compatibility.md')
  for (const words of [
    '60 seconds',
    'refresh tokens',
    '`grant_type=web`',
    '`slack_shared_channel`',
    'an invitation that has expired',
    'S3-08',
    '`external_member_id`',
    'invoice_number_at',
  ])
    expect(page).toContain(words)
})

test('the full CI run sets every BURSAR_TEST count, and the pages on proof and contributing state the same numbers', () => {
  const sources = execFileSync('git', ['ls-files', 'server/test', 'server/src'], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((name) => /\.(test|load)\.ts$|^server\/test\/.*\.ts$/.test(name))
    .map(read)
    .join('\n')
  const names = new Set([
    ...[...sources.matchAll(/\bcounted\('([A-Z]+)'/g)].map(([, name]) => `BURSAR_TEST_${name}`),
    ...[...sources.matchAll(/\bprocess\.env\.(BURSAR_TEST_(?:ROWS|FILE_MIB|POINTS))\b/g)].map(([, name]) => name!),
  ])
  expect(names.size).toBeGreaterThan(9)
  const ci = read('.ci/run')
  const full = Object.fromEntries([...ci.matchAll(/\b(BURSAR_TEST_[A-Z_]+)=(\w+)/g)].map(([, name, count]) => [name!, count!]))
  expect([...names].filter((name) => full[name] === undefined)).toEqual([])
  for (const page of ['docs/proof.md', 'CONTRIBUTING.md'])
    for (const [, name, count] of read(page).matchAll(
      /`(BURSAR_TEST_(?:ROWS|FILE_MIB|ABORTS|CELLS|EVENTS|WRITES|TOKENS|PLANS|RENEWALS|ROUNDS|REQUESTS))=(\d+)`/g,
    ))
      expect([page, name, count]).toEqual([page, name, full[name!]])
  // The model always plays at least as many sequences as docs/proof.md states for the daily run.
  const sequences = Number(/- daily: (\d+) sequences/.exec(read('docs/proof.md'))![1])
  const played = [...ci.matchAll(/pnpm --silent model --sequences (\S+)/g)].map(([, count]) => Number(count))
  expect(played).toHaveLength(2)
  for (const count of played) expect(count).toBeGreaterThanOrEqual(sequences)
})

test('the page on limits publishes every limit, with its number', () => {
  const page = read('docs/limits.md')
  /** The rows of the table under a heading, without its first row. */
  const rowsOf = (heading: string) => {
    const part = page.split(`\n## ${heading}\n`)[1]!.split('\n## ')[0]!
    return [...part.matchAll(/^\| (.+) \|$/gm)].map(([, row]) => row!.split(' | ')).slice(1)
  }
  /** Returns the last columns of each row of a table, by the name of the limit in the first column. */
  const published = (heading: string, columns: number) => Object.fromEntries(rowsOf(heading).map((row) => [row[0]!, row.slice(-columns)]))
  const declared = <T>(table: Readonly<Record<string, T>>, columnsOf: (limit: T, name: string) => string[]) =>
    Object.fromEntries(Object.entries(table).map(([name, limit]) => [`\`${name}\``, columnsOf(limit, name)]))

  const units: Record<number, string> = { 1: 'a second', 60: 'a minute', 3600: 'an hour', 86_400: 'a day' }
  const shown = (count: number) => count.toLocaleString('en')
  const windowsOf = (environment: 'production' | 'sandbox', name: string) => {
    const { windows } = budgetsOf(environment)[name as 'api']
    return windows.map(({ limit, seconds: length }) => `${shown(limit)} in ${units[length]}`).join(', ')
  }
  expect(published('Rate limits', 2)).toEqual(declared(rateLimits, (_, name) => [windowsOf('production', name), windowsOf('sandbox', name)]))
  expect(published('Limits of a request', 1)).toEqual(declared(requestLimits, (limit) => [shown(limit)]))
  expect(published('Limits of an account', 2)).toEqual(
    declared<number | Readonly<Record<'production' | 'sandbox', number>>>(accountLimits, (limit) =>
      typeof limit === 'number' ? [shown(limit), 'the same'] : [shown(limit.production), shown(limit.sandbox)],
    ),
  )

  const other = (start: string) =>
    rowsOf('Other limits')
      .find(([first]) => first!.startsWith(start))!
      .slice(1)
  const mebibyte = 1024 * 1024
  const inDays = (ms: number) => `${ms / days} days`
  expect(other('records on a page')[0]).toBe(`${pageSizeLimit}; a larger \`limit\` counts as ${pageSizeLimit}`)
  expect(other('size of a file')[0]).toBe(
    `5 GiB unless [\`BURSAR_FILE_LIMIT_MIB\`](configuration.md) sets another limit (at most ${fileLimits.downloadable.size / mebibyte ** 2} TiB), ${fileLimits.product_media.size / mebibyte} MiB, ${fileLimits.organization_avatar.size / mebibyte} MiB`,
  )
  expect(other('invitation to a seat')[0]).toBe(inDays(invitationLife))
  expect(other('OAuth access token')[0]).toBe(inDays(lifetimes.access))
  expect(other('OAuth refresh token')[0]).toBe(`${inDays(lifetimes.refresh)} after its last use, ${inDays(lifetimes.authorization)} in all`)
  expect(other('authorization code')[0]).toBe(`${lifetimes.code / seconds} seconds, once`)
})

test('the checkout page of the docs lists every test card and its behaviour', () => {
  const page = read('docs/guides/checkout.md')
  for (const [token, { says }] of Object.entries(cards)) expect(page).toContain(`| \`${token}\` | ${says} |`)
})

test('the dependencies page lists every package that the server needs', () => {
  const { dependencies } = JSON.parse(read('server/package.json')) as { dependencies: Record<string, string> }
  const page = read('docs/decisions/dependencies.md')
  for (const [name, version] of Object.entries(dependencies)) {
    if (version.startsWith('workspace:')) continue
    expect(page, name).toMatch(new RegExp(`${name.replace('@opentelemetry/', '').replace(/[-/]/g, '.')}[ ,]`))
    expect(page, `${name} ${version}`).toContain(version)
  }
})

test('verifies every test vector as documented with the verifier of the license key page', async () => {
  const readLicence = await documentedVerifier()
  const { vectors, ...given } = JSON.parse(read('docs/guides/license-keys.json')) as Parameters<typeof readLicence>[1] & {
    vectors: { name: string; token: string; claims?: unknown; error?: string }[]
  }
  const outcome = (token: string) => {
    try {
      return { claims: readLicence(token, given) }
    } catch (error) {
      return { error: (error as Error).message }
    }
  }
  for (const { name, token, ...wanted } of vectors) expect([name, outcome(token)]).toEqual([name, wanted])
  expect(new Set(vectors.map(({ error }) => error)).size).toBe(5)
})
