import { readFileSync, writeFileSync } from 'node:fs'
import { addExamples, type Examples } from '../src/documentation/examples.ts'
import { versions } from '../src/index.ts'
import { document } from '../src/openapi.ts'

const examples = JSON.parse(readFileSync(new URL('../examples/examples.json', import.meta.url), 'utf8')) as Examples

/** Writes the OpenAPI document of every version, with the recorded examples. `pnpm check` fails if a committed document is out of date. */
for (const version of versions) {
  const described = document(version)
  addExamples(described, examples)
  writeFileSync(new URL(`../openapi/${version}.json`, import.meta.url), `${JSON.stringify(described, null, 2)}\n`)
}
