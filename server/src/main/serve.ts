import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { seconds, systemClock } from '../platform/clock.ts'
import { readConfig } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { startTracing } from './tracing.ts'

export type ServeRole = 'api' | 'worker'

interface Part {
  unready(): Promise<string[]>
  close(): Promise<void>
}

/** Runs the roles asked for until a signal comes, then finishes what is under way. A start that fails half-way leaves nothing running. */
export const serve = async (roles: readonly ServeRole[]): Promise<void> => {
  const config = readConfig(process.env)
  const log = openLog(config.log_level)
  const stopTracing = await startTracing(config)
  // Imported after tracing has started, so that the database driver is instrumented.
  const { openApi, openWorker } = await import('./wire.ts')
  const telemetry = openTelemetry()
  const base = { config, clock: systemClock, log, telemetry }
  const parts: Part[] = []
  let draining = false

  const stopped = new Promise<string>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve(name))
    process.on('unhandledRejection', (error) => {
      // A promise that nobody awaited has failed: what else is wrong is unknown, so this process ends, in order.
      log.error('unhandled_rejection', { error })
      process.exitCode = 1
      resolve('unhandledRejection')
    })
  })

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

    const reason = await stopped
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
