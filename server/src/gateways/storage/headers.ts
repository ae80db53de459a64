/** Image types that cannot contain a script. SVG is missing, because it can. */
const inlineTypes: readonly string[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']

/** True for a valid content type: `type/subtype`, optionally with parameters. */
export const isContentType = (text: string): boolean =>
  text.length <= 255 && /^[0-9A-Za-z!#$&^_.+-]+\/[0-9A-Za-z!#$&^_.+-]+( ?; ?[0-9A-Za-z_.+-]+=([0-9A-Za-z_.+-]+|"[ !#-[\]-~]*"))*$/.test(text)

/** True if browsers display a public object of this type inline. All other types are downloaded. */
export const isShownInPlace = (content_type: string): boolean => inlineTypes.includes(content_type.toLowerCase().split(';')[0]!.trim())

/** Cache-Control of public objects. A public object never changes, but it may be deleted, so caches keep it for an hour only. */
export const publicCaching = 'public, max-age=3600'

/**
 * Content-Disposition for a download under this name, never inline. By RFC 6266 it contains the name in ASCII, and in
 * UTF-8 (RFC 5987) if that differs.
 */
export const contentDisposition = (name: string): string => {
  const line = name.toWellFormed().replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
  const plain = line
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^ -~]/gu, '_')
    .replaceAll(/["\\%/]/g, '_')
  return `attachment; filename="${plain}"${plain === line ? '' : `; filename*=UTF-8''${extended(line)}`}`
}

/** Percent-encodes all characters that RFC 5987 does not allow. */
const extended = (text: string): string => encodeURIComponent(text).replaceAll(/['()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
