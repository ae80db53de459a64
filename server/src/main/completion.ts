import type { Command } from 'commander'
import { bursar } from '../kernel/command-name.ts'
import { Usage } from './usage.ts'

/** The words that can follow a command: its sub-commands, its flags and the known values of its arguments. */
interface Words {
  /** The command without the name of the program: `token create`. */
  readonly path: string
  readonly next: readonly string[]
}

const wordsOf = (command: Command, path: string, kinds: readonly string[]): Words[] => {
  const flags = command.options.filter((one) => !one.hidden).map(({ long }) => long!)
  const verbs = command.commands.map((one) => one.name())
  const values: Record<string, readonly string[]> = { trigger: kinds, completion: ['bash', 'zsh'], 'operator open': switches, 'operator close': switches }
  return [
    { path, next: [...verbs, ...(values[path] ?? []), ...flags] },
    ...command.commands.flatMap((one) => wordsOf(one, path === '' ? one.name() : `${path} ${one.name()}`, kinds)),
  ]
}
const switches = ['sign-up', 'organizations', 'off-session']

/** The body that both shells share. It sets `found` to the words that fit, from the words before the cursor in `before`. */
const body = (all: readonly Words[]): string => {
  const paths = all.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`)
  return `  local word path=''
  for word in "\${before[@]}"; do
    case "\${path:+$path }$word" in
      ${paths.join('|')}) path="\${path:+$path }$word" ;;
    esac
  done
  case "$path" in
${all.map(({ path, next }) => `    '${path}') found='${next.join(' ')}' ;;`).join('\n')}
  esac`
}

const scripts: Record<string, (all: readonly Words[]) => string> = {
  bash: (all) => `_bursar() {
  local found='' before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
${body(all)}
  COMPREPLY=($(compgen -W "$found" -- "\${COMP_WORDS[COMP_CWORD]}"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _bursar bursar`,
  zsh: (all) => `_bursar() {
  local found='' before
  before=("\${(@)words[2,CURRENT-1]}")
${body(all)}
  compadd -- \${=found} || _files
}
compdef _bursar bursar`,
}

/** Prints a script that completes commands and flags in a shell. */
export const completion = async (shell: string, program: Command): Promise<void> => {
  const script = scripts[shell]
  if (!script) throw new Usage(`there is a completion for bash and zsh, not for ${shell}. Example: ${bursar} completion bash`)
  const { webhookKinds } = await import('@bursar/contract')
  process.stdout.write(`${script(wordsOf(program, '', webhookKinds))}\n`)
}
