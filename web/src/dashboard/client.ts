import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { DashboardScreen, Locale } from '@bursar/views'

interface Chunk {
  readonly file: string
  readonly css?: readonly string[]
  readonly imports?: readonly string[]
}

/** A built file, with the compressed forms that the build has made. */
export interface ClientFile {
  readonly type: string
  readonly text: Buffer
  readonly br?: Buffer
  readonly gz?: Buffer
}

const folder = fileURLToPath(new URL('../client', import.meta.url))
const base = '/assets/dashboard/'
let read: Readonly<Record<string, Chunk>> | undefined
const manifest = () => (read ??= JSON.parse(readFileSync(`${folder}/manifest.json`, 'utf8')) as Record<string, Chunk>)

/** Returns the files of the chunks and of everything that they import, without duplicates. */
const filesOf = (keys: readonly string[]): string[] => {
  const seen = new Set<string>()
  const visit = (key: string) => {
    const chunk = manifest()[key]
    if (chunk === undefined || seen.has(chunk.file)) return
    seen.add(chunk.file)
    for (const one of chunk.imports ?? []) visit(one)
  }
  keys.forEach(visit)
  return [...seen].map((file) => `${base}${file}`)
}

const entry = 'src/main.tsx'

/** The script and the stylesheet of the dashboard, and the chunks that a screen needs first. */
export const clientOf = (screen: DashboardScreen, locale: Locale) => {
  const style = Object.values(manifest()).find(({ file }) => file.endsWith('.css'))
  return {
    script: `${base}${manifest()[entry]!.file}`,
    style: `${base}${style!.file}`,
    preload: filesOf([entry, `src/texts/${locale}.ts`, `src/screens/${screen}/${locale}.ts`, `src/screens/${screen}/${screen}.tsx`]),
  }
}

const types: Readonly<Record<string, string>> = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8' }

/** Reads all built files of the dashboard, by their URL. */
export const clientFiles = (): Readonly<Record<string, ClientFile>> => {
  const read = (name: string) => readFileSync(`${folder}/${name}`)
  return Object.fromEntries(
    globSync('*.{js,css}', { cwd: folder }).map((name) => {
      const type = types[name.split('.').at(-1)!]!
      return [`${base}${name}`, { type, text: read(name), ...(name.endsWith('.js') ? { br: read(`${name}.br`), gz: read(`${name}.gz`) } : {}) }]
    }),
  )
}
