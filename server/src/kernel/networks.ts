/** Returns the eight groups of an IPv6 address, without leading zeros. */
const groupsOf = (address: string): string[] => {
  const [head = '', tail] = address.split('::')
  const left = head.split(':').filter((part) => part !== '')
  const right = tail === undefined ? [] : tail.split(':').filter((part) => part !== '')
  const all = tail === undefined ? left : [...left, ...Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0'), ...right]
  return all.map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
}

const v4Of = (address: string): string | undefined => /^(?:::ffff:)?(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]

/** Returns the network of one client: an IPv4 address, or an IPv6 /64, because one IPv6 client holds a whole /64. */
export const networkOf = (address: string): string => v4Of(address) ?? `${groupsOf(address).slice(0, 4).join(':')}::/64`

/** Returns the wider network of an address: an IPv4 /24 or an IPv6 /48. Providers usually assign a network of this size to one customer. */
export const blockOf = (address: string): string => {
  const v4 = v4Of(address)
  return v4 === undefined ? `${groupsOf(address).slice(0, 3).join(':')}::/48` : `${v4.split('.').slice(0, 3).join('.')}.0/24`
}
