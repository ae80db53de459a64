import { register } from 'node:module'
import type { Config } from '../platform/config.ts'

/** Traces go to the collector that is configured, and are not made where none is. Statements are traced without their values. */
export const startTracing = async (config: Config): Promise<() => Promise<void>> => {
  if (config.otlp_endpoint === undefined) return async () => {}
  const [{ NodeSDK }, { OTLPTraceExporter }, { PgInstrumentation }] = await Promise.all([
    import('@opentelemetry/sdk-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/instrumentation-pg'),
  ])
  register('@opentelemetry/instrumentation/hook.mjs', import.meta.url)
  const sdk = new NodeSDK({
    serviceName: `bursar-${config.environment}`,
    traceExporter: new OTLPTraceExporter({ url: `${config.otlp_endpoint.replace(/\/+$/, '')}/v1/traces` }),
    instrumentations: [new PgInstrumentation({ requireParentSpan: true, enhancedDatabaseReporting: false })],
    resourceDetectors: [],
  })
  sdk.start()
  return () => sdk.shutdown()
}
