/**
 * Reads a page that shows a change step by step, and applies the change to files. A block below a line with a path
 * creates that file. A `diff` block names its file in the first line, then shows unchanged, removed and added lines.
 */
export interface Edit {
  /** The heading above the block, without its number. */
  readonly step: string
  readonly path: string
  /** Lines that must occur once in the file, one after the other. Undefined for a new file. */
  readonly before: readonly string[] | undefined
  readonly after: readonly string[]
}

export interface WorkedExample {
  readonly steps: readonly string[]
  readonly edits: readonly Edit[]
  /** The commands of the last step. */
  readonly commands: readonly string[]
}

/** Parses a page. Throws if a block has no path or an unknown language, so that no block is skipped. */
export const parseExample = (page: string): WorkedExample => {
  const sections = page.split(/^## \d+\. /m).slice(1)
  const steps = sections.map((section) => section.split('\n', 1)[0]!)
  const edits: Edit[] = []
  const commands: string[] = []
  for (const [at, section] of sections.entries())
    for (const [, label, language, text] of section.matchAll(/(?:^`([^`\n]+)`:\n\n)?^```(\w*)\n(.*?)\n```$/gms)) {
      const step = steps[at]!
      const lines = text!.split('\n')
      if (language === 'sh' && at === sections.length - 1) commands.push(...lines)
      else if (language === 'diff') edits.push(parseDiff(step, lines))
      else if (label !== undefined) edits.push({ step, path: label, before: undefined, after: lines })
      else throw new Error(`"${step}" has a block without a path. Write the path as \`path\`: above it, or make it a diff:\n${text}`)
    }
  return { steps, edits, commands }
}

const parseDiff = (step: string, [first = '', ...lines]: readonly string[]): Edit => {
  const wrong = lines.find((line) => !/^[ +-]/.test(line))
  if (wrong !== undefined) throw new Error(`"${step}" has a diff with a line that starts with neither a space, + nor -: ${wrong}`)
  const without = (sign: string) => lines.filter((line) => !line.startsWith(sign)).map((line) => line.slice(1))
  const before = without('+')
  if (before.length === 0) throw new Error(`"${step}" has a diff for ${first.trim()} without an existing line. Show the line above the change.`)
  return { step, path: first.trim(), before, after: without('-') }
}

/** Applies edits in order. Returns the changed files with their texts. `read` returns undefined for a file that does not exist. */
export const applyEdits = (edits: readonly Edit[], read: (path: string) => string | undefined): Map<string, string> => {
  const changed = new Map<string, string>()
  for (const { step, path, before, after } of edits) {
    const text = changed.get(path) ?? read(path)
    if (before === undefined) {
      if (text !== undefined) throw new Error(`"${step}" creates ${path}, which exists already.`)
      changed.set(path, `${after.join('\n')}\n`)
      continue
    }
    if (text === undefined) throw new Error(`"${step}" changes ${path}, which does not exist.`)
    const lines = text.split('\n')
    const places = lines.flatMap((_, at) => (before.every((line, offset) => lines[at + offset] === line) ? [at] : []))
    if (places.length !== 1)
      throw new Error(`"${step}" needs these lines once in ${path}, and they occur ${places.length} times. Update the diff on the page:\n${before.join('\n')}`)
    changed.set(path, lines.toSpliced(places[0]!, before.length, ...after).join('\n'))
  }
  return changed
}
