import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { licenseKeyPattern, tokenPatterns, webhookSecretPattern } from '../../src/kernel/secrets.ts'

const scratch = () => process.env.BURSAR_TEST_SCRATCH ?? '/tmp'
/** What opens a file to whoever has the link, on our own server and at a store. */
const linkSignature = '(?<=[sS]ignature=)[0-9a-f]{64}'
const tokens = new RegExp([...tokenPatterns.map(({ pattern }) => pattern), webhookSecretPattern, linkSignature, licenseKeyPattern].join('|'), 'g')

/** Remembers every secret in a text that the system handed to somebody: an answer, a cookie, a mail. */
export const noteSecrets = (text: string): void => {
  const found = text.match(tokens)
  if (found) appendFileSync(join(scratch(), `${process.pid}.secrets`), found.map((token) => `${token}\n`).join(''))
}

/** Every secret that was issued in this process so far. */
export const issuedSecrets = (): string[] => {
  const file = join(scratch(), `${process.pid}.secrets`)
  return existsSync(file) ? [...new Set(readFileSync(file, 'utf8').split('\n'))].filter((line) => line !== '') : []
}

/** Where a world of this process writes its log. */
export const logFile = (): string => join(scratch(), `${process.pid}.log`)

/** The ways in which a secret could hide in a log. */
const disguises = (secret: string): string[] => {
  const bytes = Buffer.from(secret)
  // Inside a longer text base64 depends on what stands before: three alignments, less the ends that mix with neighbours.
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(shift === 0 ? 0 : shift + 1, -4),
  )
  const raw = secret.slice(secret.lastIndexOf('_') + 1)
  return [
    raw,
    encodeURIComponent(secret),
    bytes.toString('hex'),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    raw.split('').toReversed().join(''),
  ]
}

const gram = 8

/** Which of many things stand in a text, reading it once: how many there are to look for hardly matters. */
export const searchFor = (wanted: Iterable<string>): ((text: string) => Set<string>) => {
  const beginning = new Map<string, string[]>()
  for (const one of wanted) {
    if (one.length < gram) throw new Error(`too short to be looked for: ${one.length} letters`)
    const same = beginning.get(one.slice(0, gram))
    if (same) same.push(one)
    else beginning.set(one.slice(0, gram), [one])
  }
  return (text) => {
    const found = new Set<string>()
    for (let at = 0; at + gram <= text.length; at++)
      for (const one of beginning.get(text.slice(at, at + gram)) ?? []) if (text.startsWith(one, at)) found.add(one)
    return found
  }
}

/** Searches everything that was logged for everything that was issued. */
export const scanLogs = (directory: string): { issued: number; bytes: number; found: string[] } => {
  const names = readdirSync(directory)
  const read = (ending: string) => names.filter((name) => name.endsWith(ending)).map((name) => readFileSync(join(directory, name), 'utf8'))
  const issued = new Set(read('.secrets').flatMap((text) => text.split('\n').filter((line) => line !== '')))
  const logs = read('.log')
  const secretOf = new Map([...issued].flatMap((secret) => disguises(secret).map((form) => [form, secret] as const)))
  const search = searchFor(secretOf.keys())
  const found = new Set(logs.flatMap((log) => [...search(log)]))
  return {
    issued: issued.size,
    bytes: logs.reduce((sum, log) => sum + log.length, 0),
    found: [...found].map((form) => `${secretOf.get(form)!.slice(0, 20)}… as ${form.slice(0, 8)}…`),
  }
}
