const second = 1000
export const hour = 3_600_000
export const day = 24 * hour

const formats = new Map<string, Intl.DateTimeFormat>()

const formatOf = (zone: string): Intl.DateTimeFormat => {
  const known = formats.get(zone)
  if (known) return known
  const made = new Intl.DateTimeFormat('en-US', {
    // The zone `Factory` of the IANA database has the offset of UTC. `Intl` does not know it.
    timeZone: zone === 'Factory' ? 'UTC' : zone,
    hourCycle: 'h23',
    era: 'short',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  formats.set(zone, made)
  return made
}

/**
 * Returns the local time of a zone at a moment, as milliseconds since 1970 by the local clock. PostgreSQL knows the same
 * zones only if its host has them, and some hosts have no old names. So zones are resolved here.
 */
export const localTime = (at: number, zone: string): number => {
  const whole = Math.floor(at / second) * second
  const fields: Record<string, string> = {}
  for (const { type, value } of formatOf(zone).formatToParts(whole)) fields[type] = value
  const year = fields['era'] === 'BC' ? 1 - Number(fields['year']) : Number(fields['year'])
  const local = new Date(0)
  local.setUTCFullYear(year, Number(fields['month']) - 1, Number(fields['day']))
  local.setUTCHours(Number(fields['hour']), Number(fields['minute']), Number(fields['second']))
  return local.getTime() + (at - whole)
}

/**
 * Returns the first moment at which the local clock of a zone shows this time. If the clock skips this time, returns the
 * moment of the skip.
 */
export const momentOf = (local: number, zone: string): number => {
  const offsets = [local - day, local + day].map((near) => localTime(near, zone) - near)
  const shown = offsets.map((offset) => local - offset).filter((at) => localTime(at, zone) === local)
  if (shown.length > 0) return Math.min(...shown)
  // The clock skips this time between the two candidates. The skip is found by bisection.
  let [before, after] = [local - Math.max(...offsets), local - Math.min(...offsets)]
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2)
    if (localTime(middle, zone) < local) before = middle
    else after = middle
  }
  return after
}
