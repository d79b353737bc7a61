/** The completion of `trilog`, as bash uses it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { it } from 'node:test'
import { trilogCommand } from '../../src/cli/trilog-command.ts'
import { allSettings, flagOf } from '../../src/config/all-settings.ts'

const hasBash = spawnSync('bash', ['--version']).error === undefined

/**
 * What bash offers at the end of each line, given as the words into which bash splits it. Runs the function that the script registers, in a
 * shell that fails on unset variables, as users may have set it.
 */
function offeredAt(...lines: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const answer = trilogCommand(['completion', 'bash'], {}, { version: '1.2.3', node: '22.18.0' })
  assert(answer.kind === 'say')
  const quoted = (word: string): string => `'${word}'`
  const asked = lines.map((words) =>
    [
      `COMP_WORDS=(${words.map(quoted).join(' ')})`,
      `COMP_CWORD=${words.length - 1}`,
      `COMP_LINE=${quoted(words.join(' '))}`,
      `COMP_POINT=\${#COMP_LINE}`,
      'COMPREPLY=()',
      `"$complete" trilog "\${COMP_WORDS[COMP_CWORD]}" "\${COMP_WORDS[COMP_CWORD-1]}"`,
      'echo "${COMPREPLY[*]-}"',
    ].join('\n'),
  )
  const registered = String.raw`complete=$(complete -p trilog | sed -n 's/.* -F \([^ ]*\) trilog$/\1/p')`
  const input = ['set -u', answer.text, registered, ...asked, ''].join('\n')
  const { stdout, stderr, status } = spawnSync('bash', ['--norc', '--noprofile'], { input, encoding: 'utf8' })
  assert.deepEqual([status, stderr], [0, ''])
  const shown = stdout.split('\n').slice(0, -1)
  assert.equal(shown.length, lines.length)
  return shown.map((line) => line.split(' ').filter((word) => word !== ''))
}

const bash = 'bash completes commands, their commands and their flags as somebody types them'
it(hasBash ? bash : `${bash} (skipped: this machine has no bash)`, { skip: !hasBash }, () => {
  const [first, some, ofCluster, ofLogs, shells, services, none, inValue, ...flags] = offeredAt(
    ['trilog', ''],
    ['trilog', 'co'],
    ['trilog', 'cluster', 'h'],
    ['trilog', 'logs', ''],
    ['trilog', 'completion', ''],
    ['trilog', 'start', '--console-bind', 'off', '--serv'],
    ['trilog', 'stop', '--no'],
    ['trilog', 'start', '--services', '=', 'lo'],
    ['trilog', 'start', '--'],
    ['trilog', 'cluster', 'hand-over', '--t'],
    ['trilog', 'backup', '--ma'],
    ['trilog', 'restore', '--to-'],
    ['trilog', 'logs', 'search', '--fol'],
    ['trilog', 'check', '--out'],
  )
  const commands = [
    'start',
    'check',
    'config',
    'health',
    'completion',
    'backup',
    'restore',
    'inspect',
    'cluster',
    'logs',
  ]
  assert.deepEqual(first!.toSorted(), [...commands, '--help', '--version'].toSorted())
  assert.deepEqual(some, ['config', 'completion'])
  assert.deepEqual([ofCluster, ofLogs], [['hand-over'], ['search', 'tail', 'trace', 'datasets', 'export']])
  assert.deepEqual([shells, services, none, inValue], [['bash', 'zsh', 'fish'], ['--services'], [], []])
  assert.deepEqual(flags[0], Object.keys(allSettings).map(flagOf), 'every setting is a flag')
  assert.deepEqual(flags.slice(1), [
    ['--to'],
    ['--max-bytes-per-second'],
    ['--to-position'],
    ['--follow'],
    ['--output'],
  ])
})
