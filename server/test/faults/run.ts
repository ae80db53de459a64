/** Runs the faults of renewals, or with `--usage` the faults of usage. */
if (process.argv.includes('--usage')) await import('./usage/run.ts')
else await import('./kills/run.ts')
