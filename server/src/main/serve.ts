import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { seconds, stopwatch, systemClock } from '../platform/clock.ts'
import { readConfig, type Config } from '../platform/config.ts'
import { refuseHost } from '../platform/hosts.ts'
import { openLog, type Log } from '../platform/log.ts'
import { isDriverError, untilAvailable, WaitStopped } from '../platform/postgres/outage.ts'
import type { Role } from '../platform/postgres/postgres.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { startTracing } from './tracing.ts'
import { Usage } from './usage.ts'

export type ServeRole = 'api' | 'worker'

interface Part {
  unready(): Promise<string[]>
  close(): Promise<void>
}

/**
 * Resolves at the first signal that asks this process to end. A later signal ends it at once. Signals within a second
 * count as one, because this process may receive the terminal's signal twice: directly and from its parent.
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

/** Runs the server with the roles of `--roles`. */
export const serveRoles = async ({ roles: text = 'api,worker' }: { roles?: string }): Promise<void> => {
  const roles = text.split(',')
  const unknown = roles.find((role) => role !== 'api' && role !== 'worker')
  if (unknown !== undefined) throw new Usage(`--roles takes api, worker or both, not ${unknown}`)
  return serve(roles as ServeRole[])
}

export const serve = (roles: readonly ServeRole[]): Promise<void> => {
  // By default the heap may double or more between two collections of old objects. A growth of 30 % saves more than
  // 100 MiB of memory under load.
  setFlagsFromString('--heap-growing-percent=30')
  const config = readConfig(process.env)
  return run({ config, log: openLog(config.log_level), roles, stopped: signalled() })
}

interface Run {
  readonly config: Config
  readonly log: Log
  readonly roles: readonly ServeRole[]
  readonly stopped: Promise<string>
  /** Called once all roles are serving. If it fails, the process ends. */
  readonly serving?: () => Promise<void>
}

/**
 * Runs the requested roles until stopped, then finishes requests and jobs in progress. Waits for an unavailable
 * database, at the start and later. A failed start leaves nothing running.
 */
export const run = async ({ config, log, roles, stopped, serving }: Run): Promise<void> => {
  const stopTracing = await startTracing(config)
  // Imported after tracing has started, so that the database driver is instrumented.
  const { openApi, openWorker } = await import('./wire.ts')
  const telemetry = openTelemetry()
  const base = { config, clock: systemClock, log, telemetry }
  const parts: Part[] = []
  let draining = false
  /** The reason that the readiness check reports while the process starts. Undefined once the start is complete. */
  let starting: string | undefined = 'starting'

  const ended = Promise.race([stopped, untilBroken(log)])
  const waiting = new AbortController()
  void ended.then(() => waiting.abort())
  /** Opens one role of the process as soon as the database is available. */
  const open = async <T extends Part>(role: Role, openPart: () => Promise<T>): Promise<T> => {
    const part = await untilAvailable(openPart, {
      role,
      log,
      signal: waiting.signal,
      onWait: (reason) => (starting = `waiting for the database: ${reason}`),
    })
    parts.push(part)
    return part
  }
  const start = async (): Promise<void> => {
    if (roles.includes('api')) {
      const api = await open('bursar_api', () => openApi(base))
      const address = await api.server.listen(config.listen)
      log.info('listening', { address: new URL(address).host, environment: config.environment })
    }
    if (roles.includes('worker')) await open('bursar_worker', () => openWorker(base))
    starting = undefined
    log.info('serving')
  }

  const unready = async (): Promise<string[]> => {
    if (draining) return ['draining']
    return [...(starting === undefined ? [] : [starting]), ...(await Promise.all(parts.map((part) => part.unready()))).flat()]
  }
  const admin = createServer((request, response) => {
    void (async () => {
      const refused = refuseHost(request, config.allowed_hosts)
      if (refused)
        return response.writeHead(refused.status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: refused.error, detail: refused.message }))
      if (request.url === '/metrics') return response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(await telemetry.metrics())
      if (request.url === '/healthz') return response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"ok"}')
      if (request.url === '/readyz') {
        const problems = await unready()
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
    // Listens before the database is needed, so that a waiting process answers health and readiness checks.
    await new Promise<void>((resolve, reject) => admin.once('error', reject).listen(config.admin_listen.port, config.admin_listen.host, resolve))
    const { address, port } = admin.address() as AddressInfo
    log.info('admin_listening', { address: `${address}:${port}` })
    try {
      await start()
      if (serving) await Promise.race([serving(), ended])
    } catch (error) {
      if (!(error instanceof WaitStopped)) throw error
    }
    const reason = await ended
    draining = true
    log.info('draining', { reason })
    // Waits before the shutdown, because load balancers need time to notice that this process is no longer ready.
    if (parts.length > 0) await new Promise((resolve) => setTimeout(resolve, config.drain_seconds * seconds))
  } finally {
    await Promise.allSettled(parts.map((part) => part.close()))
    if (admin.listening) {
      const closed = new Promise((resolve) => admin.close(resolve))
      admin.closeAllConnections()
      await closed
    }
    await stopTracing()
    log.info('stopped')
  }
}

/**
 * Resolves at the first unhandled rejection. The state of the process is then unknown, so it shuts down in order.
 * Rejections that a broken database connection caused inside a library are ignored.
 */
const untilBroken = (log: Log): Promise<string> =>
  new Promise((resolve) => {
    process.on('unhandledRejection', (error) => {
      if (isDriverError(error)) return log.warn('stray_database_error', { error })
      log.error('unhandled_rejection', { error })
      process.exitCode = 1
      resolve('unhandledRejection')
    })
  })
