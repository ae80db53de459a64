import { isIP } from 'node:net'
import { isPrivateDomain, openMailDns, type DnsFinding, type MailDns, type MailDomain } from '../gateways/mail/dns.ts'
import { addressOf } from '../gateways/mail/mail.ts'
import { listSenders } from '../modules/organizations/index.ts'
import type { Config } from '../platform/config.ts'
import type { Db } from '../platform/postgres/postgres.ts'

/** Maximum number of organizations whose sender domains are checked. */
const mostSenders = 200

const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1).toLowerCase()

/** Returns the domain of the envelope, and all domains of mails: those of the deployment first, then those of organizations. */
const mailDomains = async ({ mail }: Config, db: Db) => {
  const own = domainOf(addressOf(mail.from))
  const envelope = mail.bounces?.domain ?? own
  const senders = new Set([own, ...(await listSenders(db, mostSenders)).map(({ sender_address }) => domainOf(sender_address))])
  const domains: MailDomain[] = [...new Set([...senders, envelope])].map((domain) => ({
    domain,
    inEnvelope: domain === envelope,
    inSender: senders.has(domain),
  }))
  return { envelope, domains }
}

/** The result of a check of all domains, as `doctor` shows it. `problem` is set if a record needs a change. */
export interface MailVerdict {
  readonly says: string
  readonly problem?: { readonly says: string; readonly repair: string }
}

/** Joins the findings about several domains. */
const join = (findings: readonly DnsFinding[]): MailVerdict => {
  const bad = findings.filter((one) => one.state === 'wrong')
  const says = findings.map((one) => one.says).join('; ')
  return bad.length === 0 ? { says } : { says, problem: { says: bad.map((one) => one.says).join('; '), repair: bad.map(({ repair }) => repair).join('; ') } }
}

/** Checks one kind of record for all public domains of mails. */
export const checkMailDns = async (
  config: Config,
  db: Db,
  look: (dns: MailDns, domain: MailDomain, envelope: string) => Promise<DnsFinding | undefined>,
): Promise<MailVerdict> => {
  if (!config.mail.smtp_url) return { says: 'not looked up: mails are written to a folder' }
  const { envelope, domains } = await mailDomains(config, db)
  const known = domains.filter(({ domain }) => !isPrivateDomain(domain))
  if (known.length === 0) return { says: `not looked up: ${domains.map(({ domain }) => domain).join(', ')} is not a public domain` }
  const dns = openMailDns(config.egress.dns_servers)
  const findings = await Promise.all(known.map((domain) => look(dns, domain, envelope)))
  return join(findings.filter((one) => one !== undefined))
}

/** Returns the host of the mail server, if it has a name that others can look up. */
const mailHostOf = ({ mail }: Config): string | undefined => {
  const { hostname } = new URL(mail.smtp_url!.reveal())
  return isIP(hostname.replace(/^\[|\]$/g, '')) !== 0 || isPrivateDomain(hostname) ? undefined : hostname
}

export const checkSpf = (config: Config, db: Db) => checkMailDns(config, db, async (dns, domain) => dns.spf(domain, mailHostOf(config)))

export const checkDkim = async (config: Config, db: Db): Promise<MailVerdict> => {
  const { dkim_selectors } = config.mail
  if (dkim_selectors.length === 0) return { says: 'not looked up: set BURSAR_MAIL_DKIM_SELECTORS to the selectors with which your mail server signs' }
  return checkMailDns(config, db, async (dns, { domain, inSender }) => (inSender ? dns.dkim(domain, dkim_selectors) : undefined))
}

export const checkDmarc = (config: Config, db: Db) =>
  checkMailDns(config, db, async (dns, { domain, inSender }, envelope) => (inSender ? dns.dmarc(domain, envelope) : undefined))
