import { context as otel, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Operation } from '@bursar/contract'
import type { FastifyRequest } from 'fastify'

const tracer = trace.getTracer('bursar')

/** Runs the work in a trace span named after its operation. The caller's span is its parent if the request names one. */
export const traced = async <T>(operation: Operation, request: FastifyRequest, work: () => Promise<T>): Promise<T> => {
  const parent = propagation.extract(otel.active(), request.headers)
  return tracer.startActiveSpan(
    operation.id,
    { kind: SpanKind.SERVER, attributes: { 'http.route': operation.path, 'http.request.method': operation.method } },
    parent,
    async (span) => {
      try {
        return await work()
      } catch (error) {
        span.setStatus({ code: SpanStatusCode.ERROR })
        throw error
      } finally {
        span.end()
      }
    },
  )
}
