import { z } from 'zod'

const isZone = (name: string): boolean => {
  if (!/^[A-Z]/i.test(name)) return false
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch {
    return false
  }
}

/** The time zone in which timestamps are written: a name of the IANA database. */
export const timezone = () =>
  z
    .preprocess((value) => (value === '' ? 'UTC' : value), z.string().max(64).refine(isZone, 'Use the name of a time zone, such as Europe/Vienna or UTC.'))
    .default('UTC')
    .describe('The time zone of dates and times, by its IANA name.')

/** A CSV file with a header line and one line for each record. */
export const csv = z.string().describe('RFC 4180, UTF-8: a header line, then one line for each record.')
