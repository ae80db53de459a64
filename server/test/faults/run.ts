/** Runs the faults of renewals. With `--usage` runs the faults of usage, and with `--replicas` those of its copy on two servers. */
if (process.argv.includes('--usage')) await import('./usage/run.ts')
else if (process.argv.includes('--replicas')) await import('./replicas/run.ts')
else await import('./kills/run.ts')
