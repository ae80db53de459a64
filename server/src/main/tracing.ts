import { register } from 'node:module'
import type { Config } from '../platform/config.ts'
import { trimEndOf } from '../kernel/texts.ts'

/** Starts tracing if a collector is configured. Statements are traced without their values. */
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
    traceExporter: new OTLPTraceExporter({ url: `${trimEndOf(config.otlp_endpoint, '/')}/v1/traces` }),
    instrumentations: [new PgInstrumentation({ requireParentSpan: true, enhancedDatabaseReporting: false })],
    resourceDetectors: [],
  })
  sdk.start()
  return () => sdk.shutdown()
}
