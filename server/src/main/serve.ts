import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '../platform/clock.ts'
import { readConfig } from '../platform/config.ts'
import { openLog } from '../platform/log.ts'
import { openTelemetry } from '../platform/telemetry.ts'
import { startTracing } from './tracing.ts'

export type ServeRole = 'api' | 'worker'

/** Runs the roles asked for until a signal comes, then finishes what is under way. */
export const serve = async (roles: readonly ServeRole[]): Promise<void> => {
  const config = readConfig(process.env)
  const log = openLog(config.log_level)
  const stopTracing = await startTracing(config)
  // Imported after tracing has started, so that the database driver is instrumented.
  const { openApi, openWorker } = await import('./wire.ts')
  const telemetry = openTelemetry()
  const base = { config, clock: systemClock, log, telemetry }
  const parts: { unready(): Promise<string[]>; close(): Promise<void> }[] = []

  if (roles.includes('api')) {
    const api = await openApi(base)
    const problems = await api.unready()
    if (problems.length > 0) {
      await api.close()
      throw new Error(`The database does not fit this version (${problems.join('; ')}). Run: pnpm bursar migrate`)
    }
    parts.push(api)
    const address = await api.server.listen(config.listen)
    log.info('listening', { address: new URL(address).host, environment: config.environment })
  }
  if (roles.includes('worker')) parts.push(await openWorker(base))

  let draining = false
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
  await new Promise<void>((resolve, reject) => admin.once('error', reject).listen(config.admin_listen.port, config.admin_listen.host, resolve))

  const { address, port } = admin.address() as AddressInfo
  log.info('admin_listening', { address: `${address}:${port}` })

  const signal = await new Promise<string>((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => resolve(name))
  })
  draining = true
  log.info('draining', { reason: signal })
  await Promise.all(parts.map((part) => part.close()))
  await new Promise((resolve) => admin.close(resolve))
  await stopTracing()
  log.info('stopped')
}
