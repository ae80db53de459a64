import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { styleText } from 'node:util'
import { listEvents, ownKinds, webhookKinds, type WebhookEventType } from '@bursar/contract'
import { Refused } from '@bursar/contract/client'
import { nearest } from '../kernel/nearest.ts'
import { newWebhookSecret, Secret } from '../kernel/secrets.ts'
import { sign, signingKeys } from '../modules/webhooks/index.ts'
import { seconds, stopwatch, systemClock } from '../platform/clock.ts'
import { apiOf, readAddress, tokenOf, type Door } from './door.ts'
import { connectTo, send } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  events?: string | undefined
  after?: string | undefined
  json?: boolean | undefined
  printSecret?: boolean | undefined
}

/** The file of this user that stores the secret. */
const secretFile = () => join(process.env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'bursar', 'listen-secret')

/**
 * Returns the secret with which `listen` signs forwarded events for this user, in any folder. The secret is created
 * once, so that the receiving server need not be reconfigured. No file of the current folder is read, because another
 * person may have written it.
 */
const localSecret = (): Secret => {
  const file = secretFile()
  if (existsSync(file)) return new Secret(readFileSync(file, 'utf8').trim())
  const secret = newWebhookSecret()
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, `${secret.reveal()}\n`, { mode: 0o600 })
  return secret
}

const say = (line: string) => void process.stdout.write(`${line}\n`)
const pause = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds))
const clockOf = (date: Date) => date.toISOString().slice(11, 19)

/** Time between two attempts. */
const retryTime = 1 * seconds

/**
 * Prints events as they occur. With an address, also forwards them to a local server, in order and signed like
 * webhooks. While the API or the local server is unavailable, waits and skips no event.
 */
export const listen = async ([given]: readonly string[], values: Values): Promise<void> => {
  if (values.printSecret) {
    const secret = localSecret().reveal()
    return say(values.json ? JSON.stringify({ secret }) : secret)
  }
  const url = given === undefined ? undefined : readAddress(given, 'listen')
  const kinds = readKinds(values.events)
  const api = connectTo(apiOf(values), tokenOf(values), { quiet: true })
  const secret = url === undefined ? undefined : localSecret()
  const keys = secret && signingKeys(secret)
  let after = values.after === undefined ? (await api.call(listEvents, { query: { limit: '1' } })).head_sequence : Number(values.after)
  if (!Number.isSafeInteger(after) || after < 0) throw new Usage(`--after takes the sequence number of an event, not ${values.after}`)
  if (!values.json) {
    say(url === undefined ? `listening after event ${after}; Ctrl-C ends` : `listening after event ${after}, forwarding to ${url}; Ctrl-C ends`)
    if (secret) say(`secret: ${secret.reveal()}\n`)
  }
  for (;;) {
    const log = await patiently('the API', values, () => api.call(listEvents, { query: { after: String(after), wait: '25', type: kinds } }))
    for (const event of log.items) {
      if (event.payload !== null && isWanted(event.type, kinds)) {
        const { payload } = event
        const outcome = url === undefined || keys === undefined ? undefined : await patiently(url, values, () => forward(url, keys, event, payload))
        if (values.json)
          say(
            JSON.stringify({
              sequence: event.sequence,
              id: event.id,
              type: event.type,
              ...outcome,
              ...(url ? {} : { payload: JSON.parse(payload) as unknown }),
            }),
          )
        else say(lineOf(event, outcome))
      }
      after = event.sequence
    }
    after = Math.max(after, log.last_sequence)
  }
}

interface Outcome {
  readonly status: number
  readonly ms: number
}

const forward = async (
  url: string,
  keys: ReturnType<typeof signingKeys>,
  { id, sequence }: { id: string; sequence: number },
  payload: string,
): Promise<Outcome> => {
  const timestamp = Math.floor(systemClock.wall().getTime() / 1000)
  const elapsed = stopwatch()
  const { status } = await send('POST', url, payload, {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign(keys, id, timestamp, payload),
    'bursar-sequence': String(sequence),
  })
  return { status, ms: Math.round(elapsed()) }
}

const lineOf = ({ sequence, type, id }: { sequence: number; type: string; id: string }, outcome: Outcome | undefined): string => {
  const answer = outcome ? `${styleText(outcome.status < 300 ? 'green' : 'red', String(outcome.status))}  ${String(outcome.ms).padStart(5)} ms  ` : ''
  return `${styleText('dim', clockOf(systemClock.wall()))}  ${answer}#${sequence}  ${type}  ${styleText('dim', id)}`
}

/**
 * Retries a call until it succeeds, and prints one line when the retries begin and one when they end. A 4xx response
 * other than 429 is not retried.
 */
const patiently = async <T>(whom: string, values: Values, work: () => Promise<T>): Promise<T> => {
  const note = (line: string) => void (values.json ? process.stderr : process.stdout).write(`${line}\n`)
  for (let tries = 0; ; tries++)
    try {
      const done = await work()
      if (tries > 0) note(`${whom} answers again`)
      return done
    } catch (error) {
      if (error instanceof Refused && error.reply.status < 500 && error.reply.status !== 429) throw error
      if (tries === 0) note(`waiting for ${whom} (${reasonOf(error as Error)}); no event is lost`)
      await pause(retryTime)
    }
}

const reasonOf = (error: Error & { code?: string }): string =>
  error instanceof Refused ? `it answers ${error.reply.status}` : error.code === 'ECONNREFUSED' ? 'nothing listens there' : (error.code ?? error.message)

/** The client of the local server may refuse types that it does not know. So types that only Bursar has must be named. */
const isWanted = (type: WebhookEventType, named: readonly WebhookEventType[]): boolean =>
  named.includes(type) || (named.length === 0 && !(ownKinds as readonly string[]).includes(type))

/** Checks the name of an event type, and suggests the one that was probably meant. */
export const readKind = (text: string): WebhookEventType => {
  if ((webhookKinds as readonly string[]).includes(text)) return text as WebhookEventType
  const meant = nearest(text, webhookKinds)
  throw new Usage(
    `there is no event type ${text}${meant === undefined ? '' : `. Did you mean ${meant}?`}${meant === undefined ? '; available: ' : ' Available: '}${webhookKinds.join(', ')}`,
  )
}

const readKinds = (text: string | undefined): WebhookEventType[] => text?.split(',').map((kind) => readKind(kind.trim())) ?? []
