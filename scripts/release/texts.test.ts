import { expect, test } from 'vitest'
import { checkLater, closeChangelog, setVersion } from './texts.ts'

test('accepts only a version after the current one', () => {
  for (const [version, current] of [
    ['0.2.0', '0.1.9'],
    ['1.0.0', '0.9.9'],
    ['0.1.10', '0.1.9'],
  ] as const)
    expect(() => checkLater(version, current)).not.toThrow()
  for (const [version, current] of [
    ['0.1.0', '0.1.0'],
    ['0.1.9', '0.2.0'],
    ['0.9.9', '1.0.0'],
  ] as const)
    expect(() => checkLater(version, current)).toThrow('does not come after')
  for (const version of ['0.2', 'v0.2.0', '0.2.0-rc.1', '']) expect(() => checkLater(version, '0.1.0')).toThrow('three numbers')
})

test('changes only the version of the package, and not those of its dependencies', () => {
  const manifest = '{\n  "name": "a",\n  "version": "0.1.0",\n  "dependencies": {\n    "version": "0.1.0"\n  }\n}\n'
  expect(setVersion(manifest, '0.2.0')).toBe(manifest.replace('  "version": "0.1.0",', '  "version": "0.2.0",'))
  expect(() => setVersion('{}', '0.2.0')).toThrow('no version')
})

test('moves unreleased changes under the heading of the version, and returns them as notes', () => {
  const before = '# Changelog\n\n## Unreleased\n\n### Added\n- One for $1.\n\n## 0.1.0\n\n- Old.\n'
  expect(closeChangelog(before, '0.2.0', '2026-12-01')).toEqual({
    changelog: '# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n### Added\n- One for $1.\n\n## 0.1.0\n\n- Old.\n',
    notes: '### Added\n- One for $1.\n',
  })
  expect(() => closeChangelog('# Changelog\n\n## Unreleased\n\n## 0.1.0\n- Old.\n', '0.2.0', '2026-12-01')).toThrow('no unreleased changes')
  expect(() => closeChangelog(before, '0.1.0', '2026-12-01')).toThrow('already has the heading')
})
