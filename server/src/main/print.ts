/** What a command has to say: for a person, or with --json for a program. */
export const print = (values: { json?: boolean | undefined }, machine: unknown, human: string): void =>
  void process.stdout.write(values.json ? `${JSON.stringify(machine)}\n` : `${human}\n`)
