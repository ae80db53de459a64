import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { cards } from '../../src/gateways/payments/test/cards.ts'
import { readConfig } from '../../src/platform/config.ts'
import { documentedVerifier } from '../harness/licences.ts'

const root = new URL('../../../', import.meta.url).pathname
const pages = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'], { cwd: root, encoding: 'utf8' })
  .split('\n')
  .filter((name) => name !== '')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

test('every link in a page leads somewhere', () => {
  const broken = pages.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^)#:]+)(#[^)]*)?\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !existsSync(join(root, dirname(page), link)))
      .map((link) => `${page} → ${link}`),
  )
  expect(broken).toEqual([])
})

test('every command that a page names exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const help = execFileSync(process.execPath, [join(root, 'server/src/main/cli.ts'), '--help'], { encoding: 'utf8' })
  for (const page of pages)
    for (const [, command, argument] of read(page).matchAll(/\bpnpm ([a-z]+(?::[a-z]+)?)(?: ([a-z]+))?/g)) {
      expect(Object.keys(scripts), `${page}: pnpm ${command}`).toContain(command)
      if (command === 'bursar' && argument !== undefined) expect(help, `${page}: bursar ${argument}`).toContain(`bursar ${argument}`)
    }
})

test('every option that a page gives to a command of ours is one', () => {
  const options = new Set([...read('server/src/main/cli.ts').matchAll(/^ {6}'?([a-z-]+)'?: \{ type:/gm)].map(([, name]) => name!))
  expect(options.size).toBeGreaterThan(20)
  for (const page of pages.filter((name) => /^(deploy|docs\/(runbooks|guides\/self-host))/.test(name)))
    for (const [line] of read(page).matchAll(/\bbursar (doctor|backup|restore|upgrade)\b[^`\n]*/g))
      for (const [, option] of line.matchAll(/ --([a-z-]+)/g)) expect([...options], `${page}: ${line}`).toContain(option)
})

test('the page on configuration lists every setting and no other', () => {
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
  // What commands read beside that is no setting of a server, and is not refused as one.
  expect(named(commands!)).toEqual(['BURSAR_API', 'BURSAR_TOKEN'])
  expect(unknown(named(commands!))).not.toContain('not a setting')
})

test('the page on checkout lists every test card and what it does', () => {
  const page = read('docs/guides/checkout.md')
  for (const [token, { says }] of Object.entries(cards)) expect(page).toContain(`| \`${token}\` | ${says} |`)
})

test('the page on dependencies lists every package that the server needs', () => {
  const { dependencies } = JSON.parse(read('server/package.json')) as { dependencies: Record<string, string> }
  const page = read('docs/decisions/dependencies.md')
  for (const [name, version] of Object.entries(dependencies)) {
    if (version.startsWith('workspace:')) continue
    expect(page, name).toMatch(new RegExp(`${name.replace('@opentelemetry/', '').replace(/[-/]/g, '.')}[ ,]`))
    expect(page, `${name} ${version}`).toContain(version)
  }
})

test('the verifier on the page on license keys reads every vector as it says', async () => {
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
