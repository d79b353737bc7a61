/** What a person sees: help, completion, and output on a terminal. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { before, describe, it } from 'node:test'
import { COMMANDS } from '../../src/cli/commands.ts'
import { optionsOf } from '../../src/cli/common-options.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { mq, mqJson } from './support.ts'
import { entryFile } from '../support/entry.ts'

const MQ = entryFile('src/cli/mq.js')
const has = (command: string): boolean => spawnSync(command, ['--version']).error === undefined

async function run(command: string, args: readonly string[], input = '', env: NodeJS.ProcessEnv = {}): Promise<string> {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, ...env } })
  child.stdin.end(input)
  const [shown] = await Promise.all([text(child.stdout), once(child, 'close')])
  return shown
}

describe('mq --help', { concurrency: 2 }, () => {
  for (const command of COMMANDS) {
    it(`of ${command.name} shows its options, and examples that begin with it`, async () => {
      const { code, stdout, stderr } = await mq([...command.name.split(' '), '--help'])
      assert.deepEqual([code, stderr], [0, ''])
      for (const { flags } of optionsOf(command)) assert.ok(stdout.includes(`  ${flags}  `), `${flags}\n${stdout}`)
      assert.ok(command.examples.length > 0)
      for (const example of command.examples) assert.ok(stdout.includes(`  ${example}\n`), example)
    })
  }

  for (const [group, shown] of [
    ['cli', /^ {2}publish \[options\] <stream> .*^Example/ms],
    ['cli release', /^ {2}evidence-burn-down .*^Example/ms],
    ['diagnostics', /^ {2}collect .*^Example/ms],
  ] as const) {
    it(`of the group ${group} shows its commands`, async () => {
      const { code, stdout } = await mq([...group.split(' '), '--help'])
      assert.equal(code, 0)
      assert.match(stdout, shown)
    })
  }

  it('of the node names the groups', async () => {
    const { stdout } = await mq(['--help'])
    for (const group of ['mq cli', 'mq diagnostics', 'mq completion']) assert.ok(stdout.includes(`  ${group} `), group)
  })
})

describe('mq completion', () => {
  it('completes groups, commands and options in bash', async () => {
    const { stdout } = await mq(['completion', 'bash'])
    const offered = async (line: string): Promise<readonly string[]> => {
      const words = line.split(' ').map((word) => `'${word}'`)
      const ask = `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _mq; printf '%s\\n' "\${COMPREPLY[@]}"`
      return (await run('bash', [], `${stdout}\n${ask}\n`)).trim().split('\n')
    }
    assert.deepEqual(await offered('mq c'), ['cli', 'completion'])
    assert.deepEqual(await offered('mq cli consumer-group '), ['describe'])
    assert.deepEqual(await offered('mq cli --data-dir x replay --f'), ['--from-offset'])
    assert.ok((await offered('mq --d')).includes('--data-dir'))
    assert.deepEqual(await offered('mq cli release e'), ['evidence-burn-down'])
  })

  it('has scripts for zsh and fish, and refuses other shells', async () => {
    assert.match((await mq(['completion', 'zsh'])).stdout, /^#compdef mq\n/)
    assert.match((await mq(['completion', 'fish'])).stdout, /^complete -c mq .*evidence-burn-down/m)
    const { code, stderr } = await mq(['completion', 'csh'])
    assert.equal(code, 2)
    assert.match(stderr, /must be one of bash, zsh, fish/)
  })

  for (const shell of ['zsh', 'fish'].filter(has)) {
    it(`is valid ${shell}`, async () => {
      const { stdout } = await mq(['completion', shell])
      assert.equal(await run(shell, ['-n'], stdout), '')
    })
  }
})

const terminal = has('script')

describe(
  terminal ? 'on a terminal' : 'on a terminal (not tried: this machine has no script of util-linux)',
  { skip: !terminal },
  () => {
    const data = `${temporaryDirectory()}/data`
    const replay = `'${process.execPath}' '${MQ}' cli --data-dir '${data}' replay orders`
    const onTerminal = (command: string, env: NodeJS.ProcessEnv): Promise<string> =>
      run('script', ['--quiet', '--return', '--command', command, '/dev/null'], '', {
        TERM: 'xterm',
        NO_COLOR: '',
        ...env,
      })
    const ESCAPE = '\u001b['

    before(async () => {
      await mqJson(['cli', '--data-dir', data, 'stream', 'create', 'orders'])
      await mqJson(['cli', '--data-dir', data, 'publish', 'orders', '--message-id', 'm', '--payload', 'p'])
    })

    it('headings are bold, and columns stand where they do without colour', async () => {
      const shown = await onTerminal(replay, {})
      assert.ok(shown.includes(`${ESCAPE}1moffset${ESCAPE}0m`), JSON.stringify(shown))
      const plain = (await mq(['cli', '--data-dir', data, 'replay', 'orders'])).stdout
      assert.ok(!plain.includes(ESCAPE))
      // oxlint-disable-next-line no-control-regex -- the escape is what is looked for
      assert.equal(shown.replaceAll(/\u001b\[\d+m/g, '').replaceAll('\r\n', '\n'), plain)
    })

    it('NO_COLOR and a dumb terminal are respected, and --output json has no colour', async () => {
      for (const [command, env] of [
        [replay, { NO_COLOR: '1' }],
        [replay, { TERM: 'dumb' }],
        [`${replay} --output json`, {}],
      ] as const) {
        const shown = await onTerminal(command, env)
        assert.ok(shown.includes('offset') && !shown.includes(ESCAPE), JSON.stringify(shown))
      }
    })

    it('what is wrong is red', async () => {
      assert.ok(
        (await onTerminal(`${replay}x`, {})).includes(`${ESCAPE}31merror${ESCAPE}0m: there is no stream ordersx`),
      )
    })
  },
)
