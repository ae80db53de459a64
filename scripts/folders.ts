import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { parseSync } from 'oxc-parser'

/** The source files of the product, without tests. */
const sources = () => globSync('{contract,server,views,web,bench}/src/**/*.{ts,tsx}').filter((file) => !/\.test\.tsx?$/.test(file))

/** Maps each import between two folders to the files that make it. Type imports count too. */
const imports = (): Map<string, Map<string, string[]>> => {
  const found = new Map<string, Map<string, string[]>>()
  for (const file of sources()) {
    const { module } = parseSync(file, readFileSync(file, 'utf8'))
    const requests = [...module.staticImports, ...module.staticExports.flatMap(({ entries }) => entries)].flatMap(
      ({ moduleRequest }) => moduleRequest?.value ?? [],
    )
    for (const request of requests.filter((one) => one.startsWith('.'))) {
      const target = normalize(join(dirname(file), request))
      const [from, to] = [dirname(file), dirname(target)]
      // Imports between a folder and its subfolders are not counted, because an `index.ts` exports from the folders below it.
      if (`${from}/`.startsWith(`${to}/`) || `${to}/`.startsWith(`${from}/`)) continue
      const targets = found.get(from) ?? found.set(from, new Map()).get(from)!
      targets.set(to, [...(targets.get(to) ?? []), `${file} → ${target}`])
    }
  }
  return found
}

/** Lists the circular imports between folders. For each import that is part of a circle, lists the shortest such circle. */
export const folderCircles = (): string[] => {
  const all = imports()
  const problems: string[] = []
  for (const [from, targets] of [...all].toSorted(([a], [b]) => a.localeCompare(b)))
    for (const [to, files] of targets) {
      const back = shortestPath(all, to, from)
      // A circle of two folders is found from both folders, but reported once.
      if (back && !(back.length === 2 && from > to)) problems.push(`${[from, ...back].join(' → ')}\n  ${files.join('\n  ')}`)
    }
  return problems
}

const shortestPath = (all: ReadonlyMap<string, ReadonlyMap<string, unknown>>, from: string, to: string): string[] | undefined => {
  const before = new Map<string, string | undefined>([[from, undefined]])
  for (const folder of before.keys()) {
    if (folder === to) {
      const path: string[] = []
      for (let at: string | undefined = to; at !== undefined; at = before.get(at)) path.unshift(at)
      return path
    }
    for (const next of all.get(folder)?.keys() ?? []) if (!before.has(next)) before.set(next, folder)
  }
  return undefined
}
