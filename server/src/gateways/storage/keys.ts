import { trimEndOf } from '../../kernel/texts.ts'

/**
 * A segment of an object key: ASCII letters, digits, `.`, `_` and `-`, without a leading dot. A key is therefore
 * identical in a URL, in a signature and as a path on disk. It cannot refer to a file outside its folder.
 */
const segment = /^[0-9A-Za-z_-][0-9A-Za-z._-]{0,199}$/

export const isKey = (text: string): boolean => text.length <= 900 && text.split('/').every((part) => segment.test(part))

/** Validates a key. Throws a TypeError for an invalid key, because that is a bug in our code. */
export const checkKey = (key: string): string => {
  if (!isKey(key)) throw new TypeError(`not a valid storage key: ${JSON.stringify(key)}`)
  return key
}

/** Validates a key prefix: empty, or a key followed by a slash. */
export const checkPrefix = (prefix: string): string => {
  if (prefix !== '' && !(prefix.endsWith('/') && isKey(prefix.slice(0, -1))))
    throw new TypeError(`not a valid prefix of a storage key: ${JSON.stringify(prefix)}`)
  return prefix
}

/** Converts a file name to a key segment: removes accents, replaces other characters by hyphens and keeps the extension. */
export const keySegment = (name: string): string => {
  const plain = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^0-9A-Za-z._-]+/g, '-')
  const [, stem = '', ending = ''] = /^(.*?)(\.[0-9A-Za-z]{1,10})?$/.exec(plain) ?? []
  const trimmed = stem.replace(/^[.-]+/, '').slice(0, 100)
  return `${trimEndOf(trimmed, '.-') || 'file'}${ending}`
}
