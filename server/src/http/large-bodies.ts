import { requestLimits, TooManyRequests } from '@bursar/contract'

const { large_body_bytes_at_once: inAll, large_body_bytes_at_once_per_caller: perCaller } = requestLimits
const mebibytes = (bytes: number) => bytes / 1_048_576

/**
 * Limits the memory of this process for requests of operations with large bodies, from before the body is read until the
 * answer is sent. Without this limit, one caller could fill the memory with bodies that are read, or wait to be handled.
 */
export const openLargeBodies = () => {
  const callers = new Map<string, number>()
  let all = 0
  return {
    /** Counts the bytes of a body that is about to be read. Returns what ends the count. Throws if too many bytes are being handled. */
    admit: (caller: string, bytes: number): (() => void) => {
      const own = callers.get(caller) ?? 0
      const [limit, whose] = own + bytes > perCaller ? [perCaller, 'for one caller'] : [inAll, 'in all']
      if (own + bytes > perCaller || all + bytes > inAll)
        throw new TooManyRequests(
          `This process handles bodies of at most ${mebibytes(limit)} MiB of this operation at the same time ${whose}. Send fewer requests at once, or smaller ones, and try again.`,
          { 'retry-after': '1' },
        )
      callers.set(caller, own + bytes)
      all += bytes
      return () => {
        const left = callers.get(caller)! - bytes
        all -= bytes
        if (left > 0) callers.set(caller, left)
        else callers.delete(caller)
      }
    },
  }
}
