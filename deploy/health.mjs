// Whether the process in this container lives, by its own word. Readiness is another question: a database that is away
// is no reason to start this process anew.
const port = (process.env.BURSAR_ADMIN_LISTEN ?? '127.0.0.1:4101').split(':').at(-1)
const answer = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(4000) }).catch(() => undefined)
process.exitCode = answer?.ok ? 0 : 1
