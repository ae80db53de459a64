import { writeFileSync } from 'node:fs'
import { versions } from '../src/index.ts'
import { document } from '../src/openapi.ts'

/** Writes the OpenAPI document of every version. `pnpm check` fails if a committed document is out of date. */
for (const version of versions) writeFileSync(new URL(`../openapi/${version}.json`, import.meta.url), `${JSON.stringify(document(version), null, 2)}\n`)
