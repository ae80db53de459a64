import { randomFillSync } from 'node:crypto'

// Random bytes are generated for many ids at once. Each byte is used for one id only.
const pool = Buffer.allocUnsafe(16 * 256)
let used = pool.length

/**
 * Creates a UUID. Its first 48 bits are the time in milliseconds, so that rows created together are adjacent in an
 * index. The rest is random. The id has the form of a version 4 UUID, which strict clients require.
 */
export const newId = (wall: Date): string => {
  if (used + 16 > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const bytes = pool.subarray(used, (used += 16))
  bytes.writeUIntBE(wall.getTime(), 0, 6)
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** True if a text has the form of an id. Check texts from other systems before using them as ids. */
export const isId = (word: string | undefined): word is string => word !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word)

/** Returns the lower bound of all ids that were created at or after a point in time. */
export const firstIdAt = (moment: Date): string => {
  const hex = Math.min(Math.max(moment.getTime(), 0), 2 ** 48 - 1)
    .toString(16)
    .padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** Returns the creation time of an id. */
export const timeOf = (id: string): Date => new Date(parseInt(id.replace('-', '').slice(0, 12), 16) || 0)
