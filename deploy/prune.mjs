// Removes from the packages of the image what no process loads: declarations, sources in TypeScript, source maps, pages of
// documentation, and font files that fonts.ts does not name. Licences stay.
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const fonts = readFileSync('server/src/platform/pdf/fonts.ts', 'utf8')
const isUnused = (name) =>
  /\.([cm]?tsx?|map|md|markdown|flow)$/i.test(name) ? !/^(licen[cs]e|notice|copying)/i.test(name) : /\.(ttf|otf)$/.test(name) && !fonts.includes(name)

let [files, bytes] = [0, 0]
const prune = (folder) => {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    const entry = lstatSync(path)
    if (entry.isDirectory()) prune(path)
    else if (entry.isFile() && isUnused(name)) {
      rmSync(path)
      files += 1
      bytes += entry.size
    }
  }
}
// Only packages of the registry: those of this workspace run from their sources.
const packages = 'node_modules/.pnpm'
if (!existsSync(packages)) throw new Error(`${packages} does not exist. Install the packages first`)
prune(packages)
console.log(`prune: removed ${files} files with ${Math.round(bytes / 1e6)} MB`)
