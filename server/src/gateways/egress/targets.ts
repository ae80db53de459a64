import { BlockList, isIP } from 'node:net'

export interface EgressPolicy {
  /** For development: allows requests to this machine, also over HTTP. */
  readonly loopback: boolean
  /** Our own public host name. Requests to it are refused, because a deployment must not call itself. */
  readonly own_host: string
}

/** Reason why a URL is refused, in words for the user who entered it. */
export class TargetRefused extends Error {}

// One list per address family. A shared list would treat an IPv4 address as its IPv4-mapped IPv6 address.
const notPublic = { 4: new BlockList(), 6: new BlockList() }
for (const [network, prefix] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
] as const)
  notPublic[4].addSubnet(network, prefix, 'ipv4')
// In IPv6 only the global unicast block is public, except its ranges for tunnels, tests and documentation.
for (const [network, prefix] of [
  ['::', 3],
  ['4000::', 2],
  ['8000::', 1],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const)
  notPublic[6].addSubnet(network, prefix, 'ipv6')

export const isPublic = (address: string): boolean => {
  const family = isIP(address)
  if (family === 4) return !notPublic[4].check(address, 'ipv4')
  return family === 6 && !notPublic[6].check(address, 'ipv6')
}

const loopbackHosts = ['localhost', '127.0.0.1', '[::1]']
const ports = ['', '443', '8443']
const privateNames = ['localhost', 'local', 'internal', 'localdomain', 'lan', 'home', 'corp', 'intranet', 'arpa', 'onion', 'invalid']
const name = /^(?=.{4,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+([a-z]{2,63}|xn--[a-z0-9-]{1,59})$/

export interface Target {
  readonly url: URL
  /** The host name to resolve, or the IP address in the URL. */
  readonly host: string
  readonly loopback: boolean
}

/**
 * Parses an outbound URL and refuses those that cannot lead to a public server. The addresses of a host name are
 * checked again for each request.
 */
export const readTarget = (text: string, policy: EgressPolicy): Target => {
  // oxlint-disable-next-line no-control-regex -- these are what is refused
  if (/[\s\\\u0000-\u001f\u007f]/.test(text)) throw new TargetRefused('The address contains a space, a backslash or a control character.')
  if (!URL.canParse(text)) throw new TargetRefused('This is not an address. Give one such as https://example.com/hooks.')
  const url = new URL(text)
  if (url.username !== '' || url.password !== '' || /^[a-z]+:\/*[^/?#]*@/i.test(text))
    throw new TargetRefused('The address must not contain a user name or password.')
  if (policy.loopback && loopbackHosts.includes(url.hostname) && ['http:', 'https:'].includes(url.protocol)) {
    return { url, host: url.hostname === '[::1]' ? '::1' : '127.0.0.1', loopback: true }
  }
  if (url.protocol !== 'https:') throw new TargetRefused('The address must begin with https://.')
  if (!ports.includes(url.port)) throw new TargetRefused('The port must be 443 or 8443.')
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0) {
    if (!isPublic(host)) throw new TargetRefused('The address is not public.')
  } else {
    if (!name.test(host)) throw new TargetRefused('The host is not a full public name such as example.com.')
    if (privateNames.includes(host.slice(host.lastIndexOf('.') + 1))) throw new TargetRefused('The host name is reserved for private use.')
    if (host === policy.own_host) throw new TargetRefused('The address belongs to this deployment. Give another one.')
  }
  return { url, host, loopback: false }
}
