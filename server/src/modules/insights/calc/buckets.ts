/** An interval of a chart. Flows are counted from `since` until `until`: the part of the interval in the asked days. */
export interface Bucket {
  readonly starts_at: Date
  readonly ends_at: Date
  readonly since: Date
  readonly until: Date
  /** The start of the days that the churn rate looks at. They end with the interval. */
  readonly trailing: Date
}
