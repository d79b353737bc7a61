/** Shell completion of `mq` and `trilog`: the scripts are made of the tables of commands, so that they offer only what exists. */
import { brokerSettings } from '../config/broker.ts'
import type { Command } from './command.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** What may stand behind each beginning of a command line, by its words without options: `cli stream`. */
export type Words = ReadonlyMap<string, readonly string[]>

export const NODE_FLAGS = [
  '--help',
  '--version',
  '--validate-config',
  ...Object.values(brokerSettings).map(({ flag }) => flag),
]

/**
 * @param optionsOf gives all options of a command
 * @param first     other words that may stand first
 */
export function wordsOf(
  commands: readonly Command[],
  optionsOf: (command: Command) => readonly { readonly flags: string }[],
  first: readonly string[],
): Words {
  const words = new Map<string, readonly string[]>([['', first]])
  const add = (path: string, word: string): void => {
    const known = words.get(path) ?? []
    words.set(path, known.includes(word) ? known : [...known, word])
  }
  for (const command of commands) {
    const parts = command.name.split(' ')
    for (const [index, part] of parts.entries()) add(parts.slice(0, index).join(' '), part)
    const flags = [...optionsOf(command).map(({ flags }) => flags.split(' ')[0]!), '--help']
    for (const flag of flags) add(command.name, flag)
  }
  return words
}

/** @param command that is completed */
export function completionScript(command: string, shell: Shell, words: Words): string {
  if (shell === 'fish') return fishScript(command, words)
  const head = shell === 'zsh' ? `#compdef ${command}\nautoload -U +X bashcompinit && bashcompinit\n` : ''
  return head + bashScript(command, words)
}

const bashScript = (
  command: string,
  words: Words,
): string => `# ${command} completion: source it, or keep it where the shell looks for completions
_${command}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path='' words='' index
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "\${path:+$path }\${COMP_WORDS[index]}" in
${alternatives(words)
  .map((path) => `      '${path}') path='${path}' ;;`)
  .join('\n')}
    esac
  done
  case "$path" in
${Array.from(words, ([path, offered]) => `    '${path}') words='${offered.join(' ')}' ;;`).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _${command} ${command}
`

const fishScript = (
  command: string,
  words: Words,
): string => `# ${command} completion: keep it as ~/.config/fish/completions/${command}.fish
function __${command}_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    switch (string trim "$path $word")
${alternatives(words)
  .map((path) => `      case '${path}'\n        set path '${path}'`)
  .join('\n')}
    end
  end
  echo "$path"
end
${Array.from(
  words,
  ([path, offered]) => `complete -c ${command} -n 'test (__${command}_path) = "${path}"' -a '${offered.join(' ')}'`,
).join('\n')}
`

/** Beginnings with at least one word. */
const alternatives = (words: Words): readonly string[] => [...words.keys()].filter((path) => path !== '')
