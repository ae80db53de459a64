import { clearStatus } from './bar.ts'

/** Prints the result of a command: as text, or as JSON with --json. */
export const print = (values: { json?: boolean | undefined }, machine: unknown, human: string): void => {
  clearStatus()
  process.stdout.write(values.json ? `${JSON.stringify(machine)}\n` : `${human}\n`)
}
