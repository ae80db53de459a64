/** Settings of every benchmark: no log, and limits that no load reaches. */
export const benchSettings: Record<string, string> = {
  BURSAR_LOG_LEVEL: 'silent',
  BURSAR_BUDGETS: JSON.stringify({ api: [[100_000_000, 60]], ingested_events: [[100_000_000, 60]] }),
  BURSAR_EGRESS_LOOPBACK: 'true',
}
