import { createHash, type Hash } from 'node:crypto'
import { Transform, type Readable } from 'node:stream'
import { StorageSilent } from './storage.ts'

/**
 * Passes the bytes of the source through, and fails unless exactly `size` bytes arrive. Otherwise an interrupted
 * transfer would look like a shorter file. The timeout measures the source only, not a slow consumer.
 */
export const wholeOf = (source: Readable, size: number, timeout: number): Readable => {
  let seen = 0
  const out = new Transform({
    transform: (chunk: Buffer, _, done) => {
      seen += chunk.length
      timer.refresh()
      done(null, chunk)
    },
    flush: (done) => done(seen === size ? null : new StorageSilent(`the storage ended after ${seen} of ${size} bytes`)),
  })
  const timer = setTimeout(() => {
    if (out.writableNeedDrain) timer.refresh()
    else out.destroy(new StorageSilent(`the storage stopped sending after ${seen} of ${size} bytes`))
  }, timeout).unref()
  source.on('error', (cause) => out.destroy(new StorageSilent(`the storage broke the connection after ${seen} of ${size} bytes`, { cause })))
  source.on('close', () => {
    if (!source.readableEnded) out.destroy(new StorageSilent(`the storage broke the connection after ${seen} of ${size} bytes`))
  })
  out.on('close', () => {
    clearTimeout(timer)
    source.destroy()
  })
  source.pipe(out)
  return out
}

export interface Measured {
  readonly size: number
  readonly sha256: Buffer
  /** SHA-256 of each part, in order. Empty if the caller gave no part sizes. */
  readonly parts: readonly Buffer[]
  /** The first bytes, up to 4 KiB, enough to detect the real type. */
  readonly beginning: Buffer
}

/**
 * Computes the size and checksums of an object by reading it once, in constant memory. If the sizes of the parts are
 * given, also hashes each part. Bytes beyond these sizes count as part of the last one.
 */
export const measure = async (body: AsyncIterable<Buffer>, sizes: readonly number[] = []): Promise<Measured> => {
  const whole = createHash('sha256')
  const parts: Buffer[] = []
  const beginning: Buffer[] = []
  let size = 0
  let kept = 0
  let part: Hash = createHash('sha256')
  let missing = sizes[0] ?? 0
  for await (const chunk of body) {
    whole.update(chunk)
    size += chunk.length
    if (kept < 4096) {
      // Copies the bytes, so that the memory of the chunk can be freed.
      beginning.push(Buffer.from(chunk.subarray(0, 4096 - kept)))
      kept += beginning.at(-1)!.length
    }
    let rest = chunk
    while (rest.length >= missing && parts.length < sizes.length - 1) {
      parts.push(part.update(rest.subarray(0, missing)).digest())
      rest = rest.subarray(missing)
      part = createHash('sha256')
      missing = sizes[parts.length]!
    }
    if (sizes.length > 0) part.update(rest)
    missing -= rest.length
  }
  while (parts.length < sizes.length) {
    parts.push(part.digest())
    part = createHash('sha256')
  }
  return { size, sha256: whole.digest(), parts, beginning: Buffer.concat(beginning) }
}
