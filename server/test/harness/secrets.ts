import { appendFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { licenseKeyPattern, tokenPatterns, webhookSecretPattern } from '../../src/kernel/secrets.ts'

const scratch = () => process.env.BURSAR_TEST_SCRATCH ?? '/tmp'
/** Patterns for the signature of a download link, on our own server and at an object store. */
const linkSignature = '(?<=[sS]ignature=)[0-9a-f]{64}'
const tokens = new RegExp([...tokenPatterns.map(({ pattern }) => pattern), webhookSecretPattern, linkSignature, licenseKeyPattern].join('|'), 'g')

/** Records every secret in a text that the system sent out: an answer, a cookie, a mail. */
export const noteSecrets = (text: string): void => {
  const found = text.match(tokens)
  if (found) appendFileSync(ownFile(), found.map((token) => `${token}\n`).join(''))
}

const ownFile = () => join(scratch(), `${process.pid}.secrets`)

/** Returns the current size of the file that records the secrets of this process. Pass it to `issuedSecrets` later. */
export const issuedSoFar = (): number => (existsSync(ownFile()) ? statSync(ownFile()).size : 0)

/** Returns the secrets that this process has issued. With `from`, only those after this position of the file (see `issuedSoFar`). */
export const issuedSecrets = (from = 0): string[] =>
  existsSync(ownFile()) ? [...new Set(readFileSync(ownFile()).subarray(from).toString().split('\n'))].filter((line) => line !== '') : []

/** Returns the file to which the test systems of this process write their logs. */
export const logFile = (): string => join(scratch(), `${process.pid}.log`)

/** Returns the encodings in which a secret could appear in a log. */
const disguises = (secret: string): string[] => {
  const bytes = Buffer.from(secret)
  // The Base64 form of a secret inside a longer text depends on its position modulo 3. Covers all three forms. Leaves
  // out the characters at the ends, because they also depend on the neighbouring text.
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes])
      .toString('base64')
      .slice(shift === 0 ? 0 : shift + 1, -4),
  )
  const raw = secret.slice(secret.lastIndexOf('_') + 1)
  return [
    raw,
    encodeURIComponent(raw),
    bytes.toString('hex'),
    ...base64,
    ...base64.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    raw.split('').toReversed().join(''),
  ]
}

const gram = 8
/** Maximum number of wanted texts for the full index. Building it for more texts takes longer than the search saves. */
const many = 20_000

const hashAt = (text: string, at: number): number => {
  let hash = 0
  for (let next = at; next < at + gram; next++) hash = (Math.imul(hash, 31) + text.charCodeAt(next)) | 0
  return hash ^ (hash >>> 15)
}

/**
 * Finds which of many wanted texts occur in another text, in a single pass. The pass checks only every eighth position.
 * The index contains the substrings of eight letters that start at the first eight positions of each wanted text. One
 * of these substrings always starts at a checked position.
 */
export const searchFor = (given: Iterable<string>): ((text: string) => Set<string>) => {
  const wanted = [...new Set(given)]
  const shortest = wanted.reduce((least, one) => Math.min(least, one.length), Infinity)
  if (shortest < gram) throw new Error(`too short to be looked for: ${shortest} letters`)
  const stride = wanted.length === 0 ? 1 : Math.min(wanted.length > many ? 1 : 8, shortest - gram + 1)
  const slots = 2 ** Math.ceil(Math.log2(16 * stride * (wanted.length + 1)))
  // A table of the hashes in the index. It rules out most positions without creating a substring.
  const taken = new Uint8Array(slots)
  const beginning = new Map<string, [string, number][]>()
  for (const one of wanted)
    for (let offset = 0; offset < stride; offset++) {
      taken[hashAt(one, offset) & (slots - 1)] = 1
      const part = one.slice(offset, offset + gram)
      const same = beginning.get(part)
      if (same) same.push([one, offset])
      else beginning.set(part, [[one, offset]])
    }
  return (text) => {
    const found = new Set<string>()
    for (let at = 0; at + gram <= text.length; at += stride)
      if (taken[hashAt(text, at) & (slots - 1)] === 1)
        for (const [one, offset] of beginning.get(text.slice(at, at + gram)) ?? []) if (text.startsWith(one, at - offset)) found.add(one)
    return found
  }
}

/**
 * Returns a function that searches a text for secrets in every encoding. A finding has the first letters of the secret
 * and of its encoded form.
 */
export const searchForSecrets = (issued: Iterable<string>): ((text: string) => { form: string; secret: string; disguise: string }[]) => {
  const secretOf = new Map([...issued].flatMap((secret) => disguises(secret).map((form) => [form, secret] as const)))
  const search = searchFor(secretOf.keys())
  return (text) => [...search(text)].map((form) => ({ form, secret: `${secretOf.get(form)!.slice(0, 20)}…`, disguise: `${form.slice(0, 8)}…` }))
}

/** Returns the contents of all files in the folder of a test run that have this suffix. */
export const readNotes = (directory: string, ending: string): string[] =>
  readdirSync(directory)
    .filter((name) => name.endsWith(ending))
    .map((name) => readFileSync(join(directory, name), 'utf8'))

/** Returns every secret that any process of a run has issued. */
export const issuedInRun = (directory: string): Set<string> =>
  new Set(readNotes(directory, '.secrets').flatMap((text) => text.split('\n').filter((line) => line !== '')))

/** Searches all logs of a run for all issued secrets. */
export const scanLogs = (directory: string): { issued: number; bytes: number; found: string[] } => {
  const issued = issuedInRun(directory)
  const logs = readNotes(directory, '.log')
  const search = searchForSecrets(issued)
  return {
    issued: issued.size,
    bytes: logs.reduce((sum, log) => sum + log.length, 0),
    found: [...new Set(logs.flatMap((log) => search(log).map(({ secret, disguise }) => `${secret} as ${disguise}`)))],
  }
}
