import { enableCompileCache } from 'node:module'
import { Usage } from './usage.ts'

// Commands are started often. The compile cache beside the packages makes each start faster. A server starts rarely.
if (!process.argv.includes('serve')) enableCompileCache(new URL('../../../node_modules/.cache/bursar', import.meta.url).pathname)

try {
  const { buildProgram } = await import('./program.ts')
  const program = buildProgram()
  // Without a command, the help is the answer.
  if (process.argv.length <= 2) program.outputHelp()
  else await program.parseAsync()
} catch (error) {
  const { clearStatus } = await import('./bar.ts')
  clearStatus()
  const { code, message } = error as { code?: string; message: string }
  if (!code?.startsWith('commander.')) {
    const { explain } = await import('./failures.ts')
    const { styleText } = await import('node:util')
    process.stderr.write(`${styleText('red', 'bursar:', { stream: process.stderr })} ${error instanceof Error ? explain(error) : message}\n`)
    process.exitCode = error instanceof Usage ? 2 : 1
  }
}
