declare module '*.css'

/** The fields of a request, generated from its schema in the contract. */
declare module 'form:*' {
  import type { Descriptor } from './kit/form.tsx'
  const descriptor: Descriptor
  export default descriptor
}

/** Plain data of the contract. */
declare module 'contract-data:metricSlugs' {
  import type { metricSlugs } from '@bursar/contract'
  const data: typeof metricSlugs
  export default data
}
declare module 'contract-data:metricSources' {
  import type { metricSources } from '@bursar/contract'
  const data: typeof metricSources
  export default data
}
declare module 'contract-data:metricsLimits' {
  import type { metricsLimits } from '@bursar/contract'
  const data: typeof metricsLimits
  export default data
}
declare module 'contract-data:countries' {
  import type { countries } from '@bursar/contract'
  const data: typeof countries
  export default data
}
