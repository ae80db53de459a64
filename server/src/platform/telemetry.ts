import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export interface Telemetry {
  request(operation: string, status: number, milliseconds: number): void
  job(name: string, outcome: 'done' | 'failed' | 'lost', milliseconds: number): void
  /** Registers a gauge whose value is read when the metrics are requested. Several parts of a process may contribute to one name. */
  gauge(name: string, help: string, read: () => Promise<number | Record<string, number>>): void
  metrics(): Promise<string>
}

/** Metrics for operators: rate, latency and errors by operation, jobs by outcome, and the age of waiting work. */
export const openTelemetry = (): Telemetry => {
  const registry = new Registry()
  const requests = new Histogram({
    name: 'bursar_request_duration_seconds',
    help: 'Response time, by operation and status.',
    labelNames: ['operation', 'status'],
    buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  })
  const errors = new Counter({
    name: 'bursar_request_errors_total',
    help: 'Answers of 500 and above, by operation.',
    labelNames: ['operation'],
    registers: [registry],
  })
  const jobs = new Histogram({
    name: 'bursar_job_duration_seconds',
    help: 'Time a job took, by name and outcome.',
    labelNames: ['job', 'outcome'],
    buckets: [0.005, 0.025, 0.1, 0.5, 1, 5, 30],
    registers: [registry],
  })
  const readers = new Map<string, (() => Promise<number | Record<string, number>>)[]>()
  return {
    request: (operation, status, milliseconds) => {
      requests.labels(operation, String(status)).observe(milliseconds / 1000)
      if (status >= 500) errors.labels(operation).inc()
    },
    job: (name, outcome, milliseconds) => jobs.labels(name, outcome).observe(milliseconds / 1000),
    gauge: (name, help, read) => {
      const known = readers.get(name)
      if (known) return void known.push(read)
      const own = [read]
      readers.set(name, own)
      const gauge: Gauge<'of'> = new Gauge({
        name,
        help,
        labelNames: ['of'],
        registers: [registry],
        collect: async () => {
          gauge.reset()
          for (const one of own) {
            // A value that cannot be read now is omitted, so that the others are still reported.
            const value = await one().catch((): Record<string, number> => ({}))
            for (const [of, figure] of Object.entries(typeof value === 'number' ? { '': value } : value)) gauge.labels(of).set(figure)
          }
        },
      })
    },
    metrics: () => registry.metrics(),
  }
}
