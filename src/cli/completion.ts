/** What a shell offers behind `mq`: a script made of the table of commands, so that it knows nothing that there is not. */
import { brokerSettings } from '../config/broker.ts'
import type { Command } from './command.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** What may stand behind each beginning of a command line, by its words without options: `cli stream`. */
type Words = ReadonlyMap<string, readonly string[]>

const NODE_FLAGS = [
  '--help',
  '--version',
  '--validate-config',
  ...Object.values(brokerSettings).map(({ flag }) => flag),
]

/** @param optionsOf all of a command */
export function wordsOf(
  commands: readonly Command[],
  optionsOf: (command: Command) => readonly { readonly flags: string }[],
): Words {
  const words = new Map<string, string[]>([['', [...NODE_FLAGS]]])
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

export function completionScript(shell: Shell, words: Words): string {
  if (shell === 'fish') return fishScript(words)
  const head = shell === 'zsh' ? '#compdef mq\nautoload -U +X bashcompinit && bashcompinit\n' : ''
  return head + bashScript(words)
}

const bashScript = (
  words: Words,
): string => `# mq completion: source it, or keep it where the shell looks for completions
_mq() {
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
complete -o default -F _mq mq
`

const fishScript = (words: Words): string => `# mq completion: keep it as ~/.config/fish/completions/mq.fish
function __mq_path
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
  ([path, offered]) => `complete -c mq -n 'test (__mq_path) = "${path}"' -a '${offered.join(' ')}'`,
).join('\n')}
`

/** Beginnings with at least one word. */
const alternatives = (words: Words): readonly string[] => [...words.keys()].filter((path) => path !== '')
