import { readFileSync } from 'node:fs'
import { styleText } from 'node:util'
import { Command, type CommanderError, type Help } from 'commander'
import { bursar } from '../kernel/command-name.ts'
import { nearest } from '../kernel/nearest.ts'
import { commands, early, hidden, type Leaf } from './command-table.ts'
import { Usage } from './usage.ts'

const versionOf = (): string => (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version

const help = (): Partial<Help> => ({
  // Also wraps descriptions on a narrow terminal.
  minWidthToWrap: 18,
  styleTitle: (text) => styleText('bold', text, { validateStream: false }),
  styleCommandText: (text) => styleText('cyan', text, { validateStream: false }),
  styleSubcommandText: (text) => styleText('cyan', text, { validateStream: false }),
  styleOptionText: (text) => styleText('cyan', text, { validateStream: false }),
  // A group lists its commands with their full names, so that a line can be copied.
  subcommandTerm: (one) =>
    `${one.parent?.parent ? `${one.parent.name()} ` : ''}${one.name()}${one.registeredArguments.map((argument) => ` ${argument.required ? `<${argument.name()}>` : `[${argument.name()}]`}`).join('')}`,
})

/** Builds the parser of the command line. It loads the code of a command only when it runs that command. */
export const buildProgram = (): Command => {
  const program = new Command('bursar')
    .description('commerce and access, self-hosted')
    .version(versionOf(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpCommand(new Command('help').argument('[command]').description('print the help of a command').helpGroup('This program:'))
    .enablePositionalOptions()
    .configureHelp(help())
    .configureOutput({ outputError: () => undefined })
    .addHelpText('after', '\nbursar <command> --help shows the flags of a command. The guides are in docs/guides.')
  // Some flags may also stand before the command.
  for (const one of early) program.addOption(hidden(one.flags, one.description))
  for (const [heading, group] of Object.entries(commands)) {
    program.commandsGroup(heading)
    for (const [name, one] of Object.entries(group))
      if ('run' in one) add(program, name, one)
      else {
        const parent = program.command(name).description(one.says).enablePositionalOptions().helpCommand(false)
        if (one.more !== undefined) parent.addHelpText('after', `\n${one.more}`)
        for (const [verb, leaf] of Object.entries(one.commands)) add(parent, verb, leaf)
      }
  }
  const visit = (command: Command): void => {
    command.exitOverride((error) => refuse(error, command))
    for (const one of command.commands) visit(one)
  }
  visit(program)
  return program
}

const add = (parent: Command, name: string, { takes, says, flags = [], more, settings, run }: Leaf): void => {
  const command = parent.command(takes === undefined ? name : `${name} ${takes}`).description(says)
  for (const one of flags) command.addOption(one)
  if (more !== undefined) command.addHelpText('after', `\n${more}`)
  command.action(async () => {
    const values = { ...readEarly(command, parent), ...command.opts() } as Record<string, never>
    if (values['env'] !== undefined) process.env.BURSAR_ENV = values['env']
    if (settings) (await import('./dev-settings.ts')).adoptDevSettings(settings, values)
    await run(command.args, values, parent.parent ?? parent)
  })
}

/** Returns the flags that stand before the command. Fails if the command does not take one of them. */
const readEarly = (command: Command, parent: Command): Record<string, unknown> => {
  const given = (parent.parent ?? parent).opts()
  for (const name of Object.keys(given))
    if (!command.options.some((one) => one.attributeName() === name)) throw new Usage(`${nameOf(command)} has no flag --${name}. ${seeHelp(command)}`)
  return given
}

/** The name of a command as it is typed: `npx bursar token create`. */
const nameOf = (command: Command): string => (command.parent ? `${nameOf(command.parent)} ${command.name()}` : bursar)
const allCommands = `${bursar} --help lists all commands`
const seeHelp = (command: Command): string => `${nameOf(command)} --help shows its usage`
const list = (names: readonly string[], last: string): string =>
  names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} ${last} ${names.at(-1)}`
const near = (given: string, known: readonly string[]): string => {
  const meant = nearest(given, known)
  return meant === undefined ? '' : `. Did you mean ${meant}?`
}

const unknownFlag = (command: Command, given: string): Usage => {
  const known = command.options.filter((one) => !one.hidden).map(({ long }) => long!)
  const advice = known.length === 0 ? seeHelp(command) : `Its flags: ${known.join(', ')}`
  const isAddress = ['dev', 'serve'].includes(command.name()) && ['--port', '--host', '-p'].includes(given)
  const instead = isAddress ? ' The address is a setting: BURSAR_LISTEN=127.0.0.1:4200, with BURSAR_ADMIN_LISTEN=127.0.0.1:4201.' : near(given, known) || '.'
  return new Usage(`${nameOf(command)} has no flag ${given}${isAddress ? '.' : ''}${instead} ${advice}`)
}

/** Replaces an error of the parser by one that says what was given, what is allowed and what to do next. */
const refuse = (error: CommanderError, command: Command): never => {
  const name = nameOf(command)
  const quoted = /'([^']*)'/.exec(error.message)?.[1] ?? ''
  const names = command.commands.map((one) => one.name()).filter((one) => one !== 'help')
  if (error.exitCode === 0) throw error
  switch (error.code) {
    case 'commander.unknownCommand': {
      const given = command.args[0] ?? quoted
      const place = command.parent ? `${name} takes ${list(names, 'or')}` : allCommands
      throw new Usage(`there is no command ${command.parent ? `${command.name()} ` : ''}${given}${near(given, names) || '.'} ${place}`)
    }
    case 'commander.help': {
      // `bursar help <command>` with an unknown name also ends here.
      const wanted = command.args[0] === 'help' ? command.args[1] : undefined
      if (wanted !== undefined) throw new Usage(`there is no command ${wanted}${near(wanted, names) || '.'} ${allCommands}`)
      // A group was called without one of its commands, so the parser wants to print help.
      throw new Usage(command.parent ? `${name} takes ${list(names, 'or')}. ${seeHelp(command)}` : `a command is needed. ${allCommands}`)
    }
    case 'commander.unknownOption':
      throw unknownFlag(command, quoted)
    case 'commander.missingMandatoryOptionValue': {
      // A misspelled flag explains why a needed one is missing.
      const wrong = command.args.find((text) => text.startsWith('-') && text !== '--')
      if (wrong !== undefined) throw unknownFlag(command, wrong.split('=')[0]!)
      const mandatory = command.options.filter((one) => one.mandatory)
      const missing = mandatory.filter((one) => command.getOptionValue(one.attributeName()) === undefined)
      const takes = command.registeredArguments.map((one) => `${one.required ? `<${one.name()}>` : `[${one.name()}]`} `).join('')
      const names = list(
        missing.map(({ long }) => long!),
        'and',
      )
      throw new Usage(
        `${names} ${missing.length === 1 ? 'is' : 'are'} needed (${missing.map(({ description }) => description).join('; ')}): ${name} ${takes}${mandatory.map(({ flags }) => flags).join(' ')}`,
      )
    }
    case 'commander.optionMissingArgument':
      throw new Usage(`${quoted.split(' ')[0]} needs a value: ${quoted}`)
    case 'commander.missingArgument':
      throw new Usage(`${name} needs <${quoted}>. ${seeHelp(command)}`)
    case 'commander.excessArguments': {
      const takes = command.registeredArguments.length
      const extra = command.args.slice(takes).join(' ')
      throw new Usage(`${name} takes ${takes === 0 ? 'no arguments' : 'one argument'}, but was also given: ${extra}. ${seeHelp(command)}`)
    }
    case 'commander.invalidArgument':
      throw new Usage(error.message.replace(/^error: /, ''))
    default:
      throw error
  }
}
