import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Measures the scripts of the dashboard as they are sent with gzip, and fails above the limits. */
const limits = { first: 135, route: 25, rich: 75 }
const folder = join(import.meta.dirname, '../../dist/client')

interface Chunk {
  readonly file: string
  readonly imports?: readonly string[]
  readonly isDynamicEntry?: boolean
}
const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Record<string, Chunk>
const sizeOf = (file: string) => readFileSync(join(folder, `${file}.gz`)).length

/** Returns the files of chunks with everything that they import. */
const filesOf = (keys: readonly string[], seen = new Set<string>()): ReadonlySet<string> => {
  for (const key of keys) {
    const chunk = manifest[key]!
    if (seen.has(chunk.file)) continue
    seen.add(chunk.file)
    filesOf(chunk.imports ?? [], seen)
  }
  return seen
}
const kib = (files: Iterable<string>) => [...files].reduce((sum, file) => sum + sizeOf(file), 0) / 1024

const entry = filesOf(['src/main.tsx', 'src/texts/de.ts'])
const list = filesOf(['src/main.tsx', 'src/texts/de.ts', 'src/screens/orders/de.ts', 'src/screens/orders/orders.tsx'])
const lines = [{ name: 'script to first rows', size: kib(list), limit: limits.first }]
for (const [key, { isDynamicEntry }] of Object.entries(manifest)) {
  if (!isDynamicEntry || !/^src\/(screens|parts)\//.test(key)) continue
  // A route costs what it adds to the list of orders, whose table most screens share.
  const own = [...filesOf([key])].filter((file) => (key === 'src/screens/orders/orders.tsx' ? !entry.has(file) : !list.has(file)))
  lines.push({ name: key.replace(/^src\//, ''), size: kib(own), limit: key.startsWith('src/parts/') ? limits.rich : limits.route })
}
for (const { name, size, limit } of lines) console.log(`${size > limit ? 'FAIL' : 'ok  '} ${name}: ${size.toFixed(1)} of ${limit} KiB gz`)
if (lines.some(({ size, limit }) => size > limit)) process.exitCode = 1
