import { writeFileSync } from 'node:fs'
import { operations, type Operation } from '@bursar/contract'
import { problemsOf, type Example } from '@bursar/contract/examples'
import { endRun } from '../../harness/runs.ts'
import { bodyOf, draftOf, pathOf } from '../../security/fuzz/drafts.ts'
import { recipeSettings } from '../../security/fuzz/recipes/recipes.ts'
import { openStage } from '../../security/fuzz/stage.ts'
import { sourceOf } from '../../security/fuzz/valid.ts'
import { openWire } from '../../security/fuzz/wire.ts'
import { openNormalizer, shorten } from './normalizing.ts'

/**
 * Records an example of every operation: a valid request of the fuzzer, and the answer of a real server. `pnpm contract` adds
 * the examples to the OpenAPI document.
 *
 * `pnpm examples [<prefix>]` records the operations whose id begins with the prefix, and keeps the others.
 */
const [prefix = ''] = process.argv.slice(2)
const file = new URL('../../../../contract/examples/examples.json', import.meta.url)
const stage = await openStage(recipeSettings)
const wire = openWire(stage.world.port)
const examples: Record<string, Example> = {}
const problems: string[] = []

const record = async (operation: Operation): Promise<Example> => {
  const source = sourceOf(operation)
  if (!source) throw new Error('there is no valid request')
  const refused: string[] = []
  for (const kind of source.allowed) {
    const valid = (await source.make(stage, stage.tenant))(kind)
    const draft = draftOf(operation, valid)
    // Without a wait, a stream stays open.
    if (operation.media === 'text/event-stream') draft.query = [...draft.query.filter(([name]) => name !== 'wait'), ['wait', '0']]
    const { bytes, type } = bodyOf(draft)
    const headers = { ...type, ...(valid.credential ?? (await stage.tenant.headers(kind))), ...draft.headers }
    const body = valid.signed === undefined ? bytes : Buffer.from(valid.signed)
    const answer = await wire.send({ method: operation.method, path: pathOf(operation, draft), headers, body, note: '' })
    if (answer.status >= 400) {
      refused.push(`${kind} ${answer.status} ${answer.text.slice(0, 200)}`)
      continue
    }
    const normalize = openNormalizer(stage.world.clock.wall().getTime())
    const isJson = (answer.headers.get('content-type') ?? '').includes('json')
    return {
      status: answer.status,
      params: normalize(draft.params, '') as Record<string, string>,
      query: draft.query.map(([name, value]) => [name, normalize(value, name) as string]),
      ...(operation.body ? { body: normalize(draft.body, '') } : {}),
      ...(operation.returns && answer.text !== ''
        ? { answer: normalize(isJson ? shorten(JSON.parse(answer.text)) : answer.text.split('\n').slice(0, 3).join('\n'), '') }
        : {}),
    }
  }
  throw new Error(refused.join(' | '))
}

for (const operation of operations) {
  if (!operation.id.startsWith(prefix)) continue
  try {
    let example: Example
    try {
      example = await record(operation)
    } catch {
      // An earlier request may have changed the tenant so that this one is refused.
      await stage.replaceTenant()
      example = await record(operation)
    }
    const wrong = problemsOf(operation, example)
    problems.push(...wrong)
    examples[operation.id] = example
  } catch (error) {
    problems.push(`${operation.id}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
wire.close()
await stage.close()
problems.push(...(await endRun()).problems)

const { default: known } = (prefix === '' ? { default: {} } : await import(file.href, { with: { type: 'json' } })) as { default: Record<string, Example> }
const all = { ...known, ...examples }
writeFileSync(file, `${JSON.stringify(Object.fromEntries(operations.flatMap(({ id }) => (all[id] ? [[id, all[id]]] : []))), null, 1)}\n`)
for (const problem of problems) console.log(`FAIL ${problem}`)
console.log(`${Object.keys(examples).length} examples recorded`)
process.exitCode = problems.length > 0 ? 1 : 0
