import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Lists the files of the working tree: tracked and new ones. Leaves out ignored files, and files that were deleted but not committed. */
export const listTree = (root: string): string[] =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
    .split('\n')
    .filter((file) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile() === true)

/** Copies the working tree into a new folder, with its packages and the built pages. Commands then run there as in the original. */
export const copyTree = (root: string, copy: string, files: readonly string[] = listTree(root)): void => {
  for (const file of files) {
    mkdirSync(join(copy, dirname(file)), { recursive: true })
    cpSync(join(root, file), join(copy, file))
  }
  for (const file of files.filter((name) => /(^|\/)package\.json$/.test(name))) copyModules(join(root, dirname(file)), join(copy, dirname(file)))
  cpSync(join(root, 'web/dist'), join(copy, 'web/dist'), { recursive: true })
}

/**
 * Copies the links of one `node_modules` folder. The links are relative, so that the copy uses its own contract and
 * server. Only the package store is shared.
 */
const copyModules = (from: string, to: string): void => {
  if (!existsSync(join(from, 'node_modules'))) return
  mkdirSync(join(to, 'node_modules'))
  for (const name of readdirSync(join(from, 'node_modules'))) {
    const [original, copied] = [join(from, 'node_modules', name), join(to, 'node_modules', name)]
    if (name === '.pnpm') symlinkSync(original, copied)
    // Skips the cache folders of tools, because other processes may be writing to them.
    else if (!name.startsWith('.vite')) cpSync(original, copied, { recursive: true, verbatimSymlinks: true })
  }
}

/** Makes a copy a git repository with one commit. Several commands list files with git, or count commits. */
export const commitTree = (copy: string): void => {
  // In a git hook, GIT_DIR names the original repository. These commands must not change it.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('GIT_')))
  const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@people.test', '-c', 'commit.gpgsign=false']
  for (const args of [
    ['init', '--quiet'],
    ['add', '--all'],
    ['commit', '--quiet', '--no-verify', '--message', 'copy'],
  ])
    execFileSync('git', [...identity, ...args], { cwd: copy, env })
}
