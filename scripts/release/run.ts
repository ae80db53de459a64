import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildah, buildImage, needPrograms, sbomFile, writeSbom } from '../image/build.ts'
import { checkLater, closeChangelog, setVersion } from './texts.ts'

/**
 * Makes a release: `pnpm release 0.2.0`. Checks the tree, writes the versions and the heading of the changelog, packs the
 * packages for npm, builds the image and the list of its packages, then commits and tags. It publishes nothing.
 * `--dry-run` does the same, and then restores the files instead of a commit. `--without-image` needs no buildah.
 */
const root = join(import.meta.dirname, '../..')
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { 'dry-run': { type: 'boolean', default: false }, 'without-image': { type: 'boolean', default: false } },
})
const [version] = positionals
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
const run = (name: string, ...args: string[]) => {
  console.log(`release: ${name} ${args.join(' ')}`)
  execFileSync(name, args, { cwd: root, stdio: 'inherit' })
}
const manifests = ['contract', 'views', 'web', 'web/dashboard', 'server'].map((folder) => `${folder}/package.json`)
const written = new Map<string, string>()
const write = (file: string, text: string) => {
  written.set(file, read(file))
  writeFileSync(join(root, file), text)
}
let [committed, done] = [false, false]
try {
  if (version === undefined || positionals.length > 1) throw new Error('usage: pnpm release <version> [--dry-run] [--without-image]')
  const { version: current } = JSON.parse(read('server/package.json')) as { version: string }
  checkLater(version, current)
  if (git('status', '--porcelain') !== '') throw new Error('the tree has changes that are not committed')
  if (git('tag', '--list', `v${version}`) !== '') throw new Error(`the tag v${version} exists already`)
  if (!existsSync(join(root, 'server/test/upgrade', current, 'recorded.json')))
    throw new Error(`the upgrade from ${current} has no test. Record its data first: node server/test/upgrade/record.ts <clone of v${current}> ${current}`)

  // Checked before the other steps, because the image is built last.
  if (!values['without-image']) needPrograms(false)

  const { changelog, notes } = closeChangelog(read('CHANGELOG.md'), version, new Date().toISOString().slice(0, 10))
  write('CHANGELOG.md', changelog)
  for (const file of manifests) write(file, setVersion(read(file), version))
  write('README.md', read('README.md').replace(`**Status:** version ${current}.`, `**Status:** version ${version}.`))

  run('pnpm', '--silent', 'web')
  run('pnpm', '--silent', 'check')
  run('pnpm', 'exec', 'vitest', 'run', 'server/test/upgrade')
  run('pnpm', '--silent', 'packages', '--try')

  // The label of the image names the commit of the release, so the commit comes first.
  if (!values['dry-run']) {
    git('commit', '--all', '--message', `chore: release ${version}`)
    committed = true
  }
  const folder = join(root, '.scratch/release', version)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const keep = (file: string, name = basename(file)) => copyFileSync(file, join(folder, name))
  writeFileSync(join(folder, 'notes.md'), notes)
  const packed = readdirSync(join(root, '.scratch/packages')).filter((name) => name.endsWith(`${version}.tgz`))
  if (packed.length !== 2) throw new Error(`two packages of version ${version} were expected, and found: ${packed.join(', ') || 'none'}`)
  for (const name of packed) keep(join(root, '.scratch/packages', name))
  writeSbom()
  keep(sbomFile, `bursar-${version}.cdx.json`)
  if (!values['without-image']) {
    const { image } = buildImage({ version })
    buildah('push', image, `docker-archive:${join(folder, `bursar-${version}.image.tar`)}:bursar:${version}`)
  }
  const sums = readdirSync(folder).map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex')}  ${name}`,
  )
  writeFileSync(join(folder, 'SHA256SUMS'), `${sums.join('\n')}\n`)
  console.log(`release: ${folder}\n${sums.join('\n')}`)

  if (values['dry-run']) console.log(`release: ${version} can be made. Nothing was committed, because this was a dry run`)
  else {
    // Without verbatim, git removes the headings, because they begin with #.
    git('tag', '--annotate', `v${version}`, '--cleanup=verbatim', '--message', `Bursar ${version}\n\n${notes}`)
    done = true
    console.log(`release: committed and tagged v${version}. To publish: git push --follow-tags, npm publish <each .tgz>, and push the image`)
  }
} catch (error) {
  const { message, stderr } = error as Error & { stderr?: string | null }
  console.error(`release: ${message}${stderr ? `\n${stderr.slice(-4000)}` : ''}`)
  process.exitCode = 1
} finally {
  if (committed && !done) git('reset', '--quiet', 'HEAD~1')
  if (!done) for (const [file, text] of written) writeFileSync(join(root, file), text)
}
