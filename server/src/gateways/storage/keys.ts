/**
 * Where an object lies: segments of plain letters, digits, `.`, `_` and `-`, none of which begins with a dot. So a key is
 * the same in an address, in a signature and as a path on a disk, and none of them can lead out of its folder.
 */
const segment = /^[0-9A-Za-z_-][0-9A-Za-z._-]{0,199}$/

export const isKey = (text: string): boolean => text.length <= 900 && text.split('/').every((part) => segment.test(part))

/** What a caller of ours gets wrong is a bug of ours, and said at once. */
export const checkKey = (key: string): string => {
  if (!isKey(key)) throw new TypeError(`not a key of the storage: ${JSON.stringify(key)}`)
  return key
}

/** The beginning of a key, up to and including a slash; or of all. */
export const checkPrefix = (prefix: string): string => {
  if (prefix !== '' && !(prefix.endsWith('/') && isKey(prefix.slice(0, -1)))) throw new TypeError(`not the beginning of a key: ${JSON.stringify(prefix)}`)
  return prefix
}

/** A file's name as the last part of a key: accents fall off, all else that is not plain becomes a hyphen, the ending stays. */
export const keySegment = (name: string): string => {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^0-9A-Za-z._-]+/g, '-')
  const [, stem = '', ending = ''] = /^(.*?)(\.[0-9A-Za-z]{1,10})?$/.exec(plain) ?? []
  const trimmed = stem.replace(/^[.-]+/, '').slice(0, 100)
  return `${trimmed.replace(/[.-]+$/, '') || 'file'}${ending}`
}
