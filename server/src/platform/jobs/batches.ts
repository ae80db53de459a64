/**
 * Collects items into batches. While one batch runs, further items wait, and together they are the next batch. The first
 * batch contains the items of one turn of the event loop. `run` returns one result for each item, in their sequence.
 */
export const openBatches = <Item, Result>(most: number, run: (items: readonly Item[]) => Promise<readonly Result[]>): ((item: Item) => Promise<Result>) => {
  const waiting: { item: Item; resolve: (result: Result) => void; reject: (error: unknown) => void }[] = []
  let running = false
  const work = async () => {
    running = true
    while (waiting.length > 0) {
      await new Promise((resolve) => setImmediate(resolve))
      const batch = waiting.splice(0, most)
      try {
        const results = await run(batch.map(({ item }) => item))
        batch.forEach(({ resolve }, at) => resolve(results[at]!))
      } catch (error) {
        batch.forEach(({ reject }) => reject(error))
      }
    }
    running = false
  }
  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    waiting.push({ item, resolve, reject })
    if (!running) void work()
    return promise
  }
}

/** Returns a function that runs work, at most `most` at a time. Further work waits in the order of its calls. */
export const openGate = (most: number): (<T>(work: () => Promise<T>) => Promise<T>) => {
  const waiting: (() => void)[] = []
  let free = most
  return async (work) => {
    if (free > 0) free--
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else free++
    }
  }
}
