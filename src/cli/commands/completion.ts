/** `mq completion`. */
import type { Command } from '../command.ts'
import { NODE_FLAGS, SHELLS, completionScript, wordsOf } from '../completion.ts'
import { usageFailure } from '../failure.ts'

/**
 * @param all       the other commands
 * @param optionsOf gives the options of a command, with those that all commands have
 */
export const completionCommand = (
  all: readonly Command[],
  optionsOf: (command: Command) => readonly { readonly flags: string }[],
): Command => {
  const command: Command = {
    name: 'completion',
    operands: ['<shell>'],
    options: [],
    places: ['nowhere'],
    description: `Print the completion of a shell: ${SHELLS.join(', ')}`,
    examples: ['source <(mq completion bash)', 'mq completion fish > ~/.config/fish/completions/mq.fish'],
    async run(call) {
      const name = call.operand('shell')
      const shell = SHELLS.find((each) => each === name)
      if (shell === undefined) throw usageFailure(`<shell> must be one of ${SHELLS.join(', ')}`)
      const script = completionScript('mq', shell, wordsOf([...all, command], optionsOf, NODE_FLAGS))
      return { json: { shell, script }, text: () => script.trimEnd().split('\n') }
    },
  }
  return command
}
