/** Events or rows that one statement processes. The statement then stays far below its timeout. */
export const perStatement = 5000

/** Divides rows into the parts that one statement processes each: at most 5,000 rows, or fewer if `most` is lower. */
export const inParts = <T>(rows: readonly T[], most = perStatement): T[][] => {
  const size = Math.min(most, perStatement)
  return Array.from({ length: Math.ceil(rows.length / size) }, (_, at) => rows.slice(at * size, (at + 1) * size))
}
