import { createPublicKey } from 'node:crypto'
import { Resolver } from 'node:dns/promises'
import { seconds } from '../../platform/clock.ts'

/** A domain that appears in mails: in the visible sender, in the envelope, or in both. */
export interface MailDomain {
  readonly domain: string
  /** The domain is in the envelope. Receivers look up the SPF record of this domain. */
  readonly inEnvelope: boolean
  /** The domain is in the visible sender. Receivers look up the DMARC record of this domain. */
  readonly inSender: boolean
}

/** The result of one check: the record is in order, needs a change, or could not be looked up. `repair` says what to add or change. */
export type DnsFinding =
  | { readonly state: 'ok' | 'unknown'; readonly says: string }
  | { readonly state: 'wrong'; readonly says: string; readonly repair: string }

/** The texts of a name. Empty if the name has none. A string if no DNS server answered. */
type Texts = readonly string[] | string

export interface MailDns {
  spf(domain: MailDomain, mailHost: string | undefined): Promise<DnsFinding>
  dkim(domain: string, selectors: readonly string[]): Promise<DnsFinding>
  dmarc(domain: string, envelopeDomain: string): Promise<DnsFinding>
}

const absent: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA'])
const longestWalk = 8

/** True for a domain that no public DNS server knows: a name without a dot, and the names of RFC 2606 and RFC 6761. */
export const isPrivateDomain = (domain: string): boolean => !domain.includes('.') || /\.(localhost|test|example|invalid|local|internal)$/i.test(domain)

/** Opens the checks of DNS records that mail needs. `servers` replaces the DNS servers of the system. */
export const openMailDns = (servers: readonly string[] | undefined): MailDns => {
  const resolver = new Resolver({ timeout: 2 * seconds, tries: 2 })
  if (servers) resolver.setServers([...servers])

  const textsOf = async (name: string): Promise<Texts> => {
    try {
      return (await resolver.resolveTxt(name)).map((parts) => parts.join(''))
    } catch (error) {
      const { code = 'no answer' } = error as { code?: string }
      return absent.has(code) ? [] : code
    }
  }

  return {
    spf: async ({ domain, inEnvelope }, mailHost) => {
      const texts = await textsOf(domain)
      if (typeof texts === 'string') return unknown('SPF', domain, texts)
      const records = texts.filter((text) => /^v=spf1( |$)/i.test(text))
      const wanted = `${domain}. TXT "v=spf1 ${mailHost === undefined ? 'mx' : `a:${mailHost}`} ~all"`
      if (records.length > 1)
        return wrong(`${domain} has ${records.length} SPF records, and receivers accept only one`, `merge the SPF records of ${domain} into one TXT record`)
      const [record] = records
      if (record === undefined)
        return inEnvelope
          ? wrong(`${domain} has no SPF record`, `add the record ${wanted}, with the servers that really send your mails`)
          : ok(`${domain}: no SPF record, and none is needed, because bounces return to another domain`)
      const all = /(?:^| )([+?~-]?)all(?: |$)/i.exec(record)
      if (all && (all[1] === '+' || all[1] === ''))
        return wrong(
          `the SPF record of ${domain} ends with +all, so every server may send in its name`,
          `replace +all with ~all in the record ${domain}. TXT "${record}"`,
        )
      return ok(`${domain}: "${record}". Check that it allows ${mailHost ?? 'your mail server'}, and the server through which that one sends`)
    },

    dkim: async (domain, selectors) => {
      const names = selectors.map((selector) => `${selector}._domainkey.${domain}`)
      const problems: string[] = []
      for (const name of names) {
        const texts = await textsOf(name)
        if (typeof texts === 'string') return unknown('DKIM', name, texts)
        const problem = keyProblem(texts.filter((text) => /(?:^|;)\s*p=/i.test(text)))
        if (problem === undefined) return ok(`${domain}: a valid key at ${name}`)
        problems.push(`${name} ${problem}`)
      }
      return wrong(
        problems.join(', '),
        `let your mail server sign mails of ${domain}, and add the record ${names[0]}. TXT "v=DKIM1; k=rsa; p=<public key that the mail server shows>"`,
      )
    },

    dmarc: async (domain, envelopeDomain) => {
      const labels = domain.split('.')
      // A subdomain without a record has that of a parent domain. RFC 9989 walks up the tree.
      for (let at = 0; at < Math.min(labels.length - 1, longestWalk); at++) {
        const parent = labels.slice(at).join('.')
        const texts = await textsOf(`_dmarc.${parent}`)
        if (typeof texts === 'string') return unknown('DMARC', `_dmarc.${parent}`, texts)
        const records = texts.filter((text) => /^v=DMARC1\s*(;|$)/i.test(text))
        if (records.length > 1)
          return wrong(
            `_dmarc.${parent} has ${records.length} DMARC records, and receivers then ignore all`,
            `delete all but one TXT record at _dmarc.${parent}`,
          )
        const [record] = records
        if (record === undefined) continue
        const tags = tagsOf(record)
        const policy = ((at > 0 ? tags.get('sp') : undefined) ?? tags.get('p') ?? '').toLowerCase()
        if (!['none', 'quarantine', 'reject'].includes(policy))
          return wrong(
            `the DMARC record at _dmarc.${parent} has no valid policy`,
            `change it to _dmarc.${parent}. TXT "v=DMARC1; p=none; rua=mailto:postmaster@${parent}"`,
          )
        const weak = policy === 'none' ? '. The policy none only asks for reports: change it to quarantine when the reports show no failures' : ''
        return ok(`${domain}: policy ${policy} at _dmarc.${parent}${weak}. ${alignment(domain, envelopeDomain, tags)}`)
      }
      return wrong(
        `${domain} has no DMARC record, and large mailbox providers refuse or filter such mails`,
        `add the record _dmarc.${domain}. TXT "v=DMARC1; p=none; rua=mailto:postmaster@${domain}"`,
      )
    },
  }
}

const ok = (says: string): DnsFinding => ({ state: 'ok', says })
const wrong = (says: string, repair: string): DnsFinding => ({ state: 'wrong', says, repair })
const unknown = (record: string, name: string, code: string): DnsFinding => ({
  state: 'unknown',
  says: `${record} of ${name} could not be looked up: DNS did not answer (${code})`,
})

const tagsOf = (record: string): ReadonlyMap<string, string> =>
  new Map(
    record.split(';').map((part) => {
      const at = part.indexOf('=')
      return [part.slice(0, Math.max(at, 0)).trim().toLowerCase(), part.slice(at + 1).trim()] as const
    }),
  )

/** Returns the problem of the key record of a selector. Undefined if receivers accept the key. */
const keyProblem = (records: readonly string[]): string | undefined => {
  const [record, second] = records
  if (record === undefined) return 'has no DKIM key'
  if (second !== undefined) return 'has several DKIM keys'
  const tags = tagsOf(record)
  const key = (tags.get('p') ?? '').replaceAll(/\s/g, '')
  if (key === '') return 'has a revoked DKIM key (p= is empty)'
  if ((tags.get('k') ?? 'rsa').toLowerCase() === 'ed25519') return Buffer.from(key, 'base64').length === 32 ? undefined : 'has a damaged DKIM key'
  try {
    const { asymmetricKeyDetails } = createPublicKey({ key: Buffer.from(key, 'base64'), format: 'der', type: 'spki' })
    const bits = asymmetricKeyDetails?.modulusLength ?? 0
    return bits < 1024 ? `has a DKIM key of ${bits} bits, and receivers ignore keys under 1024` : undefined
  } catch {
    return 'has a damaged DKIM key'
  }
}

/** Says by which of SPF and DKIM a mail can pass DMARC. The domain that SPF checks is that of the envelope. */
const alignment = (domain: string, envelopeDomain: string, tags: ReadonlyMap<string, string>): string => {
  const same = domain === envelopeDomain
  const related = domain.endsWith(`.${envelopeDomain}`) || envelopeDomain.endsWith(`.${domain}`)
  const byDkim = `sign with DKIM for d=${domain}${tags.get('adkim') === 's' ? ', and not for a parent domain' : ''}`
  if (same || (related && tags.get('aspf') !== 's')) return `SPF and DKIM can both align; ${byDkim}`
  return `SPF does not align, because bounces return to ${envelopeDomain}; ${byDkim}`
}
