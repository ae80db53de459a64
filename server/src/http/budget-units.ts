import type { Clock } from '../platform/clock.ts'
import type { Cache } from '../platform/redis.ts'
import type { Standing, Window } from './budget.sql.ts'

/**
 * Each window is a record of the units of each second. The limit therefore holds for any window, to the second. A request
 * that does not fit is not counted. It may wait until enough units have left the window.
 */
const script = `
local now = tonumber(redis.call('TIME')[1])
local units = tonumber(ARGV[1])
local wait, remaining = 0, 2147483647
for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[i * 2]), tonumber(ARGV[i * 2 + 1])
  local all = redis.call('HGETALL', key)
  local seconds, used = {}, 0
  for at = 1, #all, 2 do
    local second, count = tonumber(all[at]), tonumber(all[at + 1])
    if second <= now - window then redis.call('HDEL', key, all[at])
    else
      seconds[#seconds + 1] = { second, count }
      used = used + count
    end
  end
  remaining = math.min(remaining, limit - used)
  if used + units > limit then
    table.sort(seconds, function(a, b) return a[1] < b[1] end)
    local left, until_ = used, now + window
    for _, one in ipairs(seconds) do
      left = left - one[2]
      if left + units <= limit then
        until_ = one[1] + window
        break
      end
    end
    wait = math.max(wait, until_ - now)
  end
end
if wait > 0 then return {0, math.max(remaining, 0), wait} end
for i, key in ipairs(KEYS) do
  redis.call('HINCRBY', key, now, units)
  redis.call('EXPIRE', key, tonumber(ARGV[i * 2 + 1]) + 1)
end
return {1, remaining - units, tonumber(ARGV[3])}`

/** Maximum number of windows in memory. The window that was used longest ago is dropped first. */
const mostWindows = 10_000

/** Counts units, such as events, against a rate limit. One request may use many units. */
export const openUnits = (cache: Cache, clock: Clock) => {
  const run = cache.script('bursar_spend_units', script)
  const counts = new Map<string, Map<number, number>>()

  /** Counts in the memory of this process while Redis is unavailable, with the results of the script. */
  const spendLocally = (keys: readonly string[], windows: readonly Window[], units: number): Standing => {
    const now = Math.floor(clock.wall().getTime() / 1000)
    const held = keys.map((key, at) => new Map([...(counts.get(key) ?? [])].filter(([second]) => second > now - windows[at]!.seconds)))
    const used = held.map((seconds) => [...seconds.values()].reduce((sum, count) => sum + count, 0))
    const waits = windows.map(({ limit, seconds }, at) => {
      if (used[at]! + units <= limit) return 0
      let left = used[at]!
      for (const [second, count] of [...held[at]!].toSorted(([a], [b]) => a - b)) {
        left -= count
        if (left + units <= limit) return second + seconds - now
      }
      return seconds
    })
    const remaining = Math.min(...windows.map(({ limit }, at) => limit - used[at]!))
    const wait = Math.max(...waits)
    if (wait > 0) return { allowed: false, remaining: Math.max(remaining, 0), wait_ms: wait * 1000 }
    keys.forEach((key, at) => {
      counts.delete(key)
      counts.set(key, held[at]!.set(now, (held[at]!.get(now) ?? 0) + units))
    })
    while (counts.size > mostWindows) counts.delete(counts.keys().next().value!)
    return { allowed: true, remaining: remaining - units, wait_ms: windows[0]!.seconds * 1000 }
  }

  return async (keys: readonly string[], windows: readonly Window[], units: number): Promise<Standing> => {
    const answer = (await run(keys, [units, ...windows.flatMap(({ limit, seconds }) => [limit, seconds])])) as [number, number, number] | null
    return answer ? { allowed: answer[0] === 1, remaining: answer[1], wait_ms: answer[2] * 1000 } : spendLocally(keys, windows, units)
  }
}
