/**
 * Returns a generated avatar: the first letter of the name or address on a color derived from the id. The avatar is a
 * data URL, so that showing it sends no request to a third party. It is never null: older clients do not expect null.
 */
export const avatarOf = ({ id, name, email }: { id: string; name: string | null; email: string | null }): string => {
  const letter = /[\p{L}\p{N}]/u.exec(name ?? email ?? '')?.[0].toUpperCase() ?? '?'
  const hue = Number.parseInt(id.slice(-4), 16) % 360
  const picture = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'><rect width='8' height='8' fill='hsl(${hue},45%,40%)'/><text x='4' y='5.5' font-size='4' font-family='sans-serif' text-anchor='middle' fill='#fff'>${letter}</text></svg>`
  return `data:image/svg+xml,${picture.replace(/[%#<>]|[^\x20-\x7e]+/g, encodeURIComponent)}`
}
