import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { seconds, stopwatch, systemClock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { openLog, type Log } from '../platform/log.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { startTracing } from './tracing.ts'

export type ServeRole = 'api' | 'worker'

interface Part {
  unready(): Promise<string[]>
  close(): Promise<void>
}

/**
 * The first signal that asks this process to end. A later one ends it at once; those within a second are the same one
 * again, because whoever started us passes on what the terminal sends to all.
 */
export const signalled = (): Promise<string> =>
  new Promise((resolve) => {
    let since: (() => number) | undefined
    for (const name of ['SIGTERM', 'SIGINT'] as const)
      process.on(name, () => {
        if (since && since() > 1 * seconds) process.exit(1)
        since ??= stopwatch()
        resolve(name)
      })
  })

export const serve = (roles: readonly ServeRole[]): Promise<void> => {
  const config = readConfig(process.env)
  return run({ config, log: openLog(config.log_level), roles, stopped: signalled() })
}

interface Run {
  readonly config: Config
  readonly log: Log
  readonly roles: readonly ServeRole[]
  readonly stopped: Promise<string>
  /** Done once everything serves; where it fails, the process ends. */
  readonly serving?: () => Promise<void>
}

/** Runs the roles asked for until it is stopped, then finishes what is under way. A start that fails half-way leaves nothing running. */
export const run = async ({ config, log, roles, stopped, serving }: Run): Promise<void> => {
  const stopTracing = await startTracing(config)
  // Imported after tracing has started, so that the database driver is instrumented.
  const { openApi, openWorker } = await import('./wire.ts')
  const telemetry = openTelemetry()
  const base = { config, clock: systemClock, log, telemetry }
  const parts: Part[] = []
  let draining = false

  const broken = new Promise<string>((resolve) => {
    process.on('unhandledRejection', (error) => {
      // A promise that nobody awaited has failed: what else is wrong is unknown, so this process ends, in order.
      log.error('unhandled_rejection', { error })
      process.exitCode = 1
      resolve('unhandledRejection')
    })
  })
  const ended = Promise.race([stopped, broken])

  const admin = createServer((request, response) => {
    void (async () => {
      if (request.url === '/metrics') return response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(await telemetry.metrics())
      if (request.url === '/healthz') return response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}')
      if (request.url === '/readyz') {
        const problems = draining ? ['draining'] : (await Promise.all(parts.map((part) => part.unready()))).flat()
        return response
          .writeHead(problems.length === 0 ? 200 : 503, { 'content-type': 'application/json' })
          .end(JSON.stringify({ status: problems.length === 0 ? 'ready' : 'unready', problems }))
      }
      return response.writeHead(404).end()
    })().catch((error: unknown) => {
      log.warn('admin_request_failed', { error })
      response.writeHead(500).end()
    })
  })

  try {
    if (roles.includes('api')) {
      const api = await openApi(base)
      parts.push(api)
      const problems = await api.unready()
      if (problems.length > 0) throw new Error(`The database does not fit this version (${problems.join('; ')}). Run: pnpm bursar migrate`)
      const address = await api.server.listen(config.listen)
      log.info('listening', { address: new URL(address).host, environment: config.environment })
    }
    if (roles.includes('worker')) parts.push(await openWorker(base))
    await new Promise<void>((resolve, reject) => admin.once('error', reject).listen(config.admin_listen.port, config.admin_listen.host, resolve))
    const { address, port } = admin.address() as AddressInfo
    log.info('admin_listening', { address: `${address}:${port}` })

    if (serving) await Promise.race([serving(), ended])
    const reason = await ended
    draining = true
    log.info('draining', { reason })
    // Whoever sends us traffic needs a moment to see that we are not ready any more.
    await new Promise((resolve) => setTimeout(resolve, config.drain_seconds * seconds))
  } finally {
    await Promise.allSettled(parts.map((part) => part.close()))
    if (admin.listening) await new Promise((resolve) => admin.close(resolve))
    await stopTracing()
    log.info('stopped')
  }
}
