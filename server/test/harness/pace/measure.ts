import { hash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import pg from 'pg'

/** Work per second of a machine, for the two kinds of work that the tests consist of. */
export interface Speed {
  /** Rounds of parsing, sorting and hashing per second, summed over two threads. */
  readonly cpu: number
  /** Transactions per second, summed over two connections. */
  readonly commits: number
}

/**
 * The speed of a quiet machine with two cores at 2.5 GHz (Xeon) and PostgreSQL 15 on the same machine. It is the best
 * of twelve measurements at a load average below 1 with no stolen time, rounded down. Even then single measurements
 * were up to 40 % slower, so one measurement is not trusted. Printed by `node server/test/harness/pace/run.ts --reference`.
 */
export const reference: Speed = { cpu: 3500, commits: 7000 }

/** Repeats a unit of work for a while. Returns the number of units per second. */
const rate = async (milliseconds: number, work: () => Promise<void> | void): Promise<number> => {
  const began = performance.now()
  let done = 0
  for (; performance.now() - began < milliseconds; done++) await work()
  return (done * 1000) / (performance.now() - began)
}

/** One unit of CPU work, similar to the server's: build, serialize, parse, sort and hash a few kilobytes. */
const compute = (): void => {
  const rows = Array.from({ length: 200 }, (_, at) => ({ id: hash('sha256', String(at)), amount: (at * 7919) % 1000, tags: [`t${at % 7}`] }))
  const text = JSON.stringify((JSON.parse(JSON.stringify(rows)) as typeof rows).toSorted((a, b) => a.amount - b.amount || (a.id < b.id ? -1 : 1)))
  hash('sha256', text)
}

export const computeRate = (milliseconds: number): Promise<number> => rate(milliseconds, compute)

const inThread = (milliseconds: number): Promise<number> =>
  new Promise((resolve, reject) => {
    const worker = new Worker(new URL('thread.ts', import.meta.url), { workerData: milliseconds })
    worker.once('message', resolve)
    worker.once('error', reject)
  })

/** Commits small transactions that write only to the write-ahead log. They need no table. */
const commitRate = async (url: string, milliseconds: number): Promise<number> => {
  const client = new pg.Client({ connectionString: url, application_name: 'bursar_pace' })
  await client.connect()
  try {
    // Commits do not wait for the disk, as in the test databases. The speed of the disk is not part of the pace.
    await client.query('set synchronous_commit to off')
    return await rate(milliseconds, async () => {
      await client.query('begin')
      await client.query(`select pg_logical_emit_message(true, 'bursar', repeat('x', 200))`)
      await client.query('commit')
    })
  } finally {
    await client.end()
  }
}

/** Measures this machine: both kinds of work one after the other, each on two cores at once. */
export const measure = async (url: string, milliseconds: number): Promise<Speed> => {
  const sum = (rates: readonly number[]) => rates.reduce((total, one) => total + one, 0)
  const cpu = sum(await Promise.all([inThread(milliseconds), inThread(milliseconds)]))
  const commits = sum(await Promise.all([commitRate(url, milliseconds), commitRate(url, milliseconds)]))
  return { cpu, commits }
}

/**
 * Returns the pace of a machine: 1 is the quiet reference, 0.25 takes four times as long. Two thirds of the tests' time
 * is CPU work, one third is waiting for PostgreSQL.
 */
export const paceOf = ({ cpu, commits }: Speed): number => 1 / ((2 / 3) * (reference.cpu / cpu) + (1 / 3) * (reference.commits / commits))

/** Rounds to two digits. Measurements of a quiet machine vary by a third, so a pace of 0.7 or more becomes 1. Never returns 0. */
export const round = (pace: number): number => (pace >= 0.7 ? 1 : Math.max(0.01, Math.round(pace * 100) / 100))
