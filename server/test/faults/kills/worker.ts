import { serve } from '../../../src/main/serve.ts'
import { sweeps } from '../../../src/platform/jobs/catalogue.ts'

/** Runs `bursar serve --roles worker` with another lease time, so that a stopped worker loses its leases during a test. */
const lease_ms = Number(process.argv[3])
for (const sweep of Object.values(sweeps)) Object.assign(sweep, { lease_ms })
await serve(['worker'])
