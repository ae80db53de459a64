import { randomFillSync } from 'node:crypto'

// Chance is drawn for many ids at once, and each part of it is used once.
const pool = Buffer.allocUnsafe(16 * 256)
let used = pool.length

/**
 * A UUID whose first 48 bits are the time in milliseconds, so that rows made together lie together in an index,
 * and the rest random; shaped as version 4, which strict clients demand.
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

/** Whether a word has the form of an id: what others write may be anything. */
export const isId = (word: string | undefined): word is string => word !== undefined && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(word)

/** The id before which all those lie that were made before a moment. */
export const firstIdAt = (moment: Date): string => {
  const hex = Math.min(Math.max(moment.getTime(), 0), 2 ** 48 - 1)
    .toString(16)
    .padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`
}

/** The moment in which an id was made. */
export const timeOf = (id: string): Date => new Date(parseInt(id.replace('-', '').slice(0, 12), 16) || 0)
