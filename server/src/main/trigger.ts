import { listEvents, type WebhookEventType } from '@bursar/contract'
import type { Client } from '@bursar/contract/client'
import { bursar } from '../kernel/command-name.ts'
import { nearest } from '../kernel/nearest.ts'
import { readToken } from '../kernel/secrets.ts'
import { minutes, stopwatch } from '../platform/clock.ts'
import { withStatus } from './bar.ts'
import { apiOf, tokenOf, type Door } from './door.ts'
import { readKind } from './listen.ts'
import { print } from './print.ts'
import { connectTo } from './send.ts'
import { triggers } from './trigger-flows.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  json?: boolean | undefined
  list?: boolean | undefined
  override?: readonly string[] | undefined
}

/** How long the slowest flow may take. The bank of `refund.updated` alone takes a minute. */
const longest = 3 * minutes
const askAgain = 200

const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))

/** Causes a real event of a type by the operations that emit it, and waits for the event. Sandbox only. */
export const trigger = async ([given]: readonly string[], values: Values): Promise<void> => {
  if (values.list) return list(values)
  if (given === undefined) throw new Usage(`give an event type to trigger, such as order.paid. ${bursar} trigger --list shows all of them`)
  const kind = readKind(given)
  const { objects } = triggers[kind]
  const overrides = (values.override ?? []).map((text) => readOverride(text, kind, objects))
  const api = connectTo(apiOf(values), tokenOf(values), { quiet: true })
  const reading = readToken(tokenOf(values))
  if (typeof reading === 'string' || reading.environment !== 'sandbox') throw new Usage('trigger needs a token of the sandbox: it creates test data')
  const { id, event } = await withStatus(`triggering ${kind}`, (say) => causeEvent(api, kind, overrides, say))
  print(values, { type: kind, resource_id: id, event_id: event.id, sequence: event.sequence }, `${kind} ${id}`)
}

/** Runs the flow of an event type, and waits until the event is in the log. Returns the event and the id that it is about. */
export const causeEvent = async (api: Client, kind: WebhookEventType, overrides: readonly Override[] = [], say: (text: string) => void = () => {}) => {
  const elapsed = stopwatch()
  const until = async <T>(what: string, ask: () => Promise<T | undefined>): Promise<T> => {
    for (;;) {
      const answer = await ask()
      if (answer !== undefined) return answer
      if (elapsed() > longest) throw new Error(`it did not happen within ${longest / minutes} minutes: ${what}. Check that a worker runs`)
      await pause(askAgain)
    }
  }
  const before = (await api.call(listEvents, { query: { limit: '1' } })).head_sequence
  const id = await triggers[kind].run({
    api,
    say,
    until,
    requestOf: (object) => ({
      call: (operation, input) => {
        const copy = structuredClone(input) as typeof input & { body: Record<string, unknown> }
        for (const one of overrides) if (one.object === object) put(copy.body, one.path, one.value)
        return api.call(operation, copy)
      },
    }),
  })
  if (kind !== 'refund.updated') say(`waiting for ${kind}`)
  const event = await until(`${kind} is emitted`, async () => {
    const { items } = await api.call(listEvents, { query: { after: String(before), type: [kind] } })
    // Others may cause events of this kind at the same time.
    return items.find(({ payload }) => payload?.includes(id))
  })
  return { id, event }
}

export interface Override {
  readonly object: string
  readonly path: readonly string[]
  readonly value: unknown
}

/** Reads `object.field.0.field=value`. The value is JSON, or else text. */
export const readOverride = (text: string, kind: WebhookEventType, objects: readonly string[]): Override => {
  const at = text.indexOf('=')
  const [object = '', ...path] = text.slice(0, Math.max(0, at)).split('.')
  if (at < 0 || path.length === 0 || path.includes(''))
    throw new Usage(`--override takes object.field=value, not ${JSON.stringify(text)}. Example: product.name=Poster`)
  if (!objects.includes(object)) {
    const meant = nearest(object, objects)
    throw new Usage(`${kind} creates no ${object}.${meant === undefined ? '' : ` Did you mean ${meant}?`} Its objects: ${objects.join(', ')}`)
  }
  return { object, path, value: readValue(text.slice(at + 1)) }
}

const readValue = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

/** Sets a field of a nested object. A missing object or list on the way is created. */
const put = (target: Record<string, unknown>, path: readonly string[], value: unknown): void => {
  let at = target
  for (const [step, name] of path.slice(0, -1).entries()) {
    if (!Object.hasOwn(at, name) || typeof at[name] !== 'object' || at[name] === null) at[name] = /^\d+$/.test(path[step + 1]!) ? [] : {}
    at = at[name] as Record<string, unknown>
  }
  Object.defineProperty(at, path.at(-1)!, { value, writable: true, enumerable: true, configurable: true })
}

const list = (values: Values): void => {
  const rows = Object.entries(triggers).map(([kind, { objects, says }]) => ({ kind, objects, note: says ?? null }))
  print(values, rows, rows.map(({ kind, objects, note }) => `${kind.padEnd(24)} ${objects.join(', ')}${note === null ? '' : ` (${note})`}`).join('\n'))
}
