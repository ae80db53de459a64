import { createWriteStream, existsSync, renameSync, statSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { dirname, resolve } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { exportCustomers, exportOrders, exportSubscriptions, type Operation } from '@bursar/contract'
import { addressOf, Refused } from '@bursar/contract/client'
import { stopwatch } from '../platform/clock.ts'
import { openBar, openStatus } from './bar.ts'
import { apiOf, tokenOf, type Door } from './door.ts'
import { receive } from './send.ts'
import { Usage } from './usage.ts'

interface Values extends Door {
  columns?: string | undefined
  status?: string | undefined
  product?: string | undefined
  after?: string | undefined
  before?: string | undefined
  timezone?: string | undefined
  out?: string | undefined
  json?: boolean | undefined
}

const files: Record<string, { readonly operation: Operation; readonly since?: string; readonly until?: string }> = {
  orders: { operation: exportOrders, since: 'created_after', until: 'created_before' },
  subscriptions: { operation: exportSubscriptions, since: 'started_after', until: 'started_before' },
  customers: { operation: exportCustomers },
}

/** Exports all records as a stream to standard output or to a file, with a progress bar. */
export const exportFile = async (what: string, [verb]: readonly string[], values: Values): Promise<void> => {
  const file = files[what]
  if (!file || verb !== 'export') throw new Usage(`bursar ${what} takes export: bursar ${what} export > ${what}.csv`)
  const list = (text: string | undefined) => text?.split(',').map((part) => part.trim())
  const query: Record<string, unknown> = {
    columns: list(values.columns),
    status: list(values.status),
    product_id: list(values.product),
    timezone: values.timezone,
    ...(file.since ? { [file.since]: values.after } : {}),
    ...(file.until ? { [file.until]: values.before } : {}),
  }
  if (!file.since && Object.values({ ...query, after: values.after, before: values.before }).some((value) => value !== undefined))
    throw new Usage(`the export of ${what} takes no filters`)
  await saveFile(file.operation, query, values, what)
}

/** Saves the response of an operation that returns a file, to standard output or to a file. */
export const saveFile = async (
  operation: Operation,
  query: Record<string, unknown>,
  values: Door & { out?: string | undefined; json?: boolean | undefined },
  what: string,
): Promise<void> => {
  if (values.out !== undefined) checkFolder(values.out)
  const elapsed = stopwatch()
  const status = openStatus(`waiting for the ${what}`)
  const answer = await receive(new URL(addressOf(operation, { query }), apiOf(values)).href, { authorization: `Bearer ${tokenOf(values)}` }).finally(() =>
    status.end(),
  )
  if (answer.statusCode !== 200) throw await refusalOf(answer)
  const total = Number(answer.headers['x-total-count'])
  const bar = openBar(total)
  const lines = counting((done) => bar.show(done - 1))
  try {
    await pipeline(answer, lines.through, values.out === undefined ? process.stdout : createWriteStream(`${values.out}.part`))
    if (lines.count() - 1 !== total) throw new Error('the answer ended early')
    // Renames the file at the end, so that a file under its final name is always complete.
    if (values.out !== undefined) renameSync(`${values.out}.part`, values.out)
  } catch (error) {
    bar.end()
    const { code, path, message } = error as NodeJS.ErrnoException
    if (code === 'EPIPE') throw new Error('the output was closed before the end', { cause: error })
    if (path !== undefined || code === 'ENOSPC') throw new Error(`${values.out ?? 'the output'} cannot be written: ${message}`, { cause: error })
    throw new Error(`the file is incomplete: ${Math.max(0, lines.count() - 1)} of ${total} ${what}. Run the command again`, { cause: error })
  }
  bar.end()
  const result = { count: total, bytes: lines.bytes(), seconds: Number((elapsed() / 1000).toFixed(1)), file: values.out ?? null }
  // Without --out, the standard output is the file itself.
  const target = values.json && values.out !== undefined ? process.stdout : process.stderr
  target.write(values.json ? `${JSON.stringify(result)}\n` : `${total} ${what}, ${(result.bytes / 1e6).toFixed(1)} MB in ${result.seconds.toFixed(1)} s\n`)
}

/** Checks the folder of `--out` before anything is requested, because a missing folder would look like a broken answer. */
const checkFolder = (file: string): void => {
  const folder = dirname(resolve(file))
  if (!existsSync(folder)) throw new Usage(`the folder ${folder} of --out does not exist. Create it, or choose another`)
  if (existsSync(file) && statSync(file).isDirectory()) throw new Usage(`--out takes a file, and ${file} is a folder`)
}

/** Passes data through and counts complete lines. A line break within quotes belongs to a cell. */
const counting = (tell: (lines: number) => void) => {
  let [count, bytes, quoted] = [0, 0, false]
  const through = new Transform({
    transform: (chunk: Buffer, _, done) => {
      bytes += chunk.length
      for (const [at, part] of chunk.toString('latin1').split('"').entries()) {
        if (at > 0) quoted = !quoted
        if (!quoted) for (let found = part.indexOf('\n'); found >= 0; found = part.indexOf('\n', found + 1)) count++
      }
      tell(count)
      done(null, chunk)
    },
  })
  return { through, count: () => count, bytes: () => bytes }
}

const refusalOf = async (answer: IncomingMessage): Promise<Error> => {
  const text = Buffer.concat(await answer.toArray()).toString()
  const body = (answer.headers['content-type'] ?? '').includes('json') ? (JSON.parse(text) as { detail?: unknown; error?: string }) : { detail: text }
  return new Refused('export', { status: answer.statusCode!, headers: new Headers(), body })
}
