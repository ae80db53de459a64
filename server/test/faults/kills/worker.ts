import { serve } from '../../../src/main/serve.ts'
import { sweeps } from '../../../src/platform/jobs/catalogue.ts'

/** `bursar serve --roles worker`, with another lease time: a worker that stands still loses its leases while a test waits. */
const lease_ms = Number(process.argv[3])
for (const sweep of Object.values(sweeps)) Object.assign(sweep, { lease_ms })
await serve(['worker'])
