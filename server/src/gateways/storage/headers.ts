/** Pictures that cannot carry a script. SVG can. */
const inlineTypes: readonly string[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']

/** Whether this can be said in a header as what a file is: `type/subtype`, perhaps with parameters. */
export const isContentType = (text: string): boolean =>
  text.length <= 255 && /^[0-9A-Za-z!#$&^_.+-]+\/[0-9A-Za-z!#$&^_.+-]+( ?; ?[0-9A-Za-z_.+-]+=([0-9A-Za-z_.+-]+|"[ !#-[\]-~]*"))*$/.test(text)

/** Whether a browser shows an object of the public bucket in place; all else it saves. */
export const isShownInPlace = (content_type: string): boolean => inlineTypes.includes(content_type.toLowerCase().split(';')[0]!.trim())

/** An object is never changed under its address, but may be removed. */
export const publicCaching = 'public, max-age=3600'

/**
 * Saved under this name, never shown in place. RFC 6266: the name in plain letters for whoever reads no other, and as it
 * is, in UTF-8 (RFC 5987), where that differs.
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

/** Everything but the letters that RFC 5987 lets stand. */
const extended = (text: string): string => encodeURIComponent(text).replaceAll(/['()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
