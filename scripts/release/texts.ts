/** The three numbers of a version such as `0.2.0`. */
const readVersion = (version: string): number[] => {
  const found = /^(\d+)\.(\d+)\.(\d+)$/.exec(version)
  if (!found) throw new Error(`a version has three numbers, such as 0.2.0, and ${JSON.stringify(version)} does not`)
  return found.slice(1).map(Number)
}

/** Fails unless the version comes after the current one. */
export const checkLater = (version: string, current: string): void => {
  const [wanted, before] = [readVersion(version), readVersion(current)]
  const at = wanted.findIndex((number, place) => number !== before[place])
  if (at === -1 || wanted[at]! < before[at]!) throw new Error(`version ${version} does not come after the current version ${current}`)
}

/** Returns a manifest with its new version, in the same format. */
export const setVersion = (manifest: string, version: string): string => {
  const changed = manifest.replace(/^( {2}"version": ")[^"]+(",)$/m, `$1${version}$2`)
  if (changed === manifest) throw new Error('a manifest has no version to replace')
  return changed
}

/** Gives the unreleased changes the heading of the version. Returns the changelog, and the changes as notes of the release. */
export const closeChangelog = (changelog: string, version: string, day: string): { changelog: string; notes: string } => {
  const [, notes] = /^## Unreleased\n(.*?)(?=^## |$(?![\s\S]))/ms.exec(changelog) ?? []
  if (notes === undefined || !/^- /m.test(notes)) throw new Error('CHANGELOG.md lists no unreleased changes under "## Unreleased"')
  if (changelog.includes(`\n## ${version}`)) throw new Error(`CHANGELOG.md already has the heading ${version}`)
  return { changelog: changelog.replace('## Unreleased\n', () => `## Unreleased\n\n## ${version} (${day})\n`), notes: `${notes.trim()}\n` }
}
