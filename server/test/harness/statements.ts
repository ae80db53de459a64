import pg from 'pg'

const control = /^\s*(begin|start transaction|commit|rollback|savepoint|release|set)\b/i

/** Records the statements that the API sends to the database while the work runs. */
export const record = async <T>(work: () => Promise<T>): Promise<{ answer: T; statements: string[] }> => {
  const statements: string[] = []
  // oxlint-disable-next-line typescript/unbound-method -- put back as it was
  const original = pg.Client.prototype.query
  pg.Client.prototype.query = function (this: pg.Client & { connectionParameters: { application_name?: string } }, ...args: unknown[]) {
    const [first] = args
    const text = typeof first === 'string' ? first : (first as { text?: string } | undefined)?.text
    // The stand-ins of payment processors use the same driver, under names of their own.
    if (text !== undefined && !control.test(text) && this.connectionParameters.application_name === 'bursar_api') statements.push(text)
    return (original as (...all: unknown[]) => unknown).apply(this, args)
  } as typeof original
  try {
    return { answer: await work(), statements }
  } finally {
    pg.Client.prototype.query = original
  }
}
