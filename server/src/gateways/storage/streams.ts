import { createHash, type Hash } from 'node:crypto'
import { Transform, type Readable } from 'node:stream'
import { StorageSilent } from './storage.ts'

/**
 * The same bytes, and either all of them or an error: a store that falls silent half-way must not look like a shorter
 * file. Whoever takes them slowly is not mistaken for a store that is slow.
 */
export const wholeOf = (source: Readable, size: number, patience: number): Readable => {
  let seen = 0
  const out = new Transform({
    transform: (chunk: Buffer, _, done) => {
      seen += chunk.length
      timer.refresh()
      done(null, chunk)
    },
    flush: (done) => done(seen === size ? null : new StorageSilent(`the store ended after ${seen} of ${size} bytes`)),
  })
  const timer = setTimeout(() => {
    if (out.writableNeedDrain) timer.refresh()
    else out.destroy(new StorageSilent(`the store stopped after ${seen} of ${size} bytes`))
  }, patience).unref()
  source.on('error', (cause) => out.destroy(new StorageSilent(`the store broke off after ${seen} of ${size} bytes`, { cause })))
  source.on('close', () => {
    if (!source.readableEnded) out.destroy(new StorageSilent(`the store broke off after ${seen} of ${size} bytes`))
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
  /** Of each part, in their order; empty where no sizes were given. */
  readonly parts: readonly Buffer[]
  /** How it begins, up to 4 KiB: enough to tell what it really is. */
  readonly beginning: Buffer
}

/**
 * What an object really is, by reading it through once, in memory that does not grow with it. With the sizes that its
 * parts were declared with, each part's SHA-256 as well; bytes beyond them count into the last.
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
      // A copy: what is kept must not keep the whole chunk.
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
