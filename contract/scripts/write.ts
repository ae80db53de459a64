import { writeFileSync } from 'node:fs'
import { versions } from '../src/index.ts'
import { document } from '../src/openapi.ts'

/** Writes the OpenAPI document of every version. `pnpm check` refuses a document that was not written anew. */
for (const version of versions) writeFileSync(new URL(`../openapi/${version}.json`, import.meta.url), `${JSON.stringify(document(version), null, 2)}\n`)
