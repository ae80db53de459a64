import { tokenPatterns, webhookSecretPattern, licenseKeyPattern } from '../../../src/kernel/secrets.ts'

/** The time that an example shows as the present. */
const present = Date.parse('2026-05-04T09:30:00.000Z')
const minute = 60_000
const day = 86_400_000

const uuid = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi
const moment = /\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})/g
const address = /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g
const host = /https?:\/\/(?:127\.0\.0\.1|localhost|\[::1\]|bursar\.test)(?::\d+)?/g
const secrets = new RegExp([...tokenPatterns.map(({ pattern }) => pattern), webhookSecretPattern, licenseKeyPattern].join('|'), 'g')
/** A signature, a hash or a random part of an address, which differs in every run. Matches ids too, so that no part of an id counts as random. */
const random = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}\b(?:\.[\w-]{20,})*/g

/** Fields whose text is secret or random as a whole. */
const opaque =
  /^(token|code|client_secret|access_token|refresh_token|id_token|session_token|code_verifier|invitation_token|hash|next_cursor|secret|hint|prev_hash)$/
/** Checksums of content. They are no secrets, and the contract checks their form. */
const checksum = /^checksum_/
const seconds = /^(iat|exp|client_id_issued_at|updated_at)$/

/** Names of the test data, and the names that a reader of the reference understands. */
const names: readonly (readonly [RegExp, string])[] = [
  [/\bOrganization org-[a-z]{10}\b/g, 'Acme'],
  [/\borg-[a-z]{10}\b/g, 'acme'],
  [/^Matrix$/, 'Acme'],
  [/^matrix$/, 'api_call'],
  [/^matrix-\d+$/, 'acme'],
  [/^Crew$/, 'Analytical Engines'],
  [/^Crew Owner$/, 'Ada Lovelace'],
  [/^(?:Named|Billed) \d+$/, 'Ada Lovelace'],
  [/^Concealed Lane 7$/, 'Main Street 7'],
  [/\b(?:Target|A thing)\b/g, 'Pro plan'],
  [/^(?:Changed|Renamed)$/, 'Team plan'],
  [/^changed$/, 'Nightly export'],
  [/^(?:target|x)$/, 'Nightly import'],
  [/^team-\d+$/, 'customer-42'],
  [/^person-\d+$/, 'member-7'],
  [/^(?:target|field)-\d+$/, 'company-size'],
  [/^Fuzz$/, 'Laptop'],
  [/\b(?:target|matrix)\.txt\b/g, 'guide.txt'],
  [/\bchanged\.example\b/g, 'acme.example'],
  [/^\*{4}-[0-9A-F]{6}$/, '****-0A1B2C'],
  [/^data:image\/svg\+xml,.*$/s, 'data:image/svg+xml,%3Csvg%3E%3C/svg%3E'],
  // Keys of a processor keep their prefix, because the contract checks it.
  [/^((?:sk|rk|pk)_(?:test|live))_.*$/, '$1_Example1'],
  [/^(sk_test_…).*$/, '$1mple1'],
]

const stable = (number: number): string => `01968f3c-7a10-7000-8000-${String(number).padStart(12, '0')}`

/**
 * Returns a function that replaces everything in a value that differs between two runs: ids, times, addresses, hosts and
 * secrets. The same id gets the same replacement within one example, so that the reader sees how request and answer belong together.
 */
export const openNormalizer = (now: number) => {
  const ids = new Map<string, string>()
  const people = new Map<string, string>()
  const numbered = (known: Map<string, string>, key: string, make: (number: number) => string): string => {
    const found = known.get(key) ?? make(known.size + 1)
    known.set(key, found)
    return found
  }
  /** Keeps the distance to the present in whole hours, or in whole minutes within a day. */
  const shift = (time: number): number => {
    const distance = time - now
    const unit = Math.abs(distance) < 10 * minute ? 10 * minute : Math.abs(distance) < day ? minute : 60 * minute
    return present + Math.round(distance / unit) * unit
  }
  const withStableIds = (text: string): string => text.replace(uuid, (id) => numbered(ids, id.toLowerCase(), stable))
  const plain = (text: string): string =>
    withStableIds(
      names
        .reduce((result, [found, shown]) => result.replace(found, shown), text)
        .replace(secrets, (secret) =>
          secret.startsWith('bursar_')
            ? `${secret.split('_').slice(0, -1).join('_')}_example`
            : secret.startsWith('whsec_')
              ? 'whsec_example'
              : '00000000-EXAMPLE-KEY',
        )
        .replace(moment, (time) => new Date(shift(Date.parse(time))).toISOString())
        .replace(address, (email) => numbered(people, email.toLowerCase(), (number) => `person${number}@example.com`))
        .replace(host, 'https://api.example.com')
        .replace(random, (found) => (found.search(uuid) === 0 ? found : 'example')),
    )

  const walk = (value: unknown, name: string): unknown => {
    if (typeof value === 'string')
      return checksum.test(name) ? value : opaque.test(name) && value.search(uuid) < 0 && plain(value) === value ? 'example' : plain(value)
    if (typeof value === 'number') return seconds.test(name) ? Math.round(shift(value * 1000) / 1000) : value
    if (Array.isArray(value)) return value.map((item) => walk(item, name))
    if (typeof value === 'object' && value !== null)
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [withStableIds(key), walk(item, key)]))
    return value
  }
  return walk
}

/** Lists that stay whole: a tax number is a pair, and entries and balances of the ledger sum to zero. */
const whole = /^(tax_id|entries|balances)$/
const isPosting = (value: unknown): boolean => typeof value === 'object' && value !== null && 'entries' in value && 'reference_id' in value

/** Shortens the lists of an answer to their first element. The balances of a ledger are sums of all its postings, so these stay too. */
export const shorten = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.every(isPosting) ? value : value.slice(0, 1).map(shorten)
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, whole.test(key) ? item : shorten(item)]))
  return value
}
