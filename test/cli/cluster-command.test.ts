import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trilogCommand } from '../../src/cli/trilog-command.ts'

const ENV = {
  TRILOG_CLUSTER_SERVERS: 'nats-1',
  TRILOG_CLUSTER_NAME: 'north',
  TRILOG_CLUSTER_SECRET: 'correct-horse-battery',
}
const answer = (args: readonly string[], env: Record<string, string> = ENV) =>
  trilogCommand(['cluster', ...args], env, { version: '1.0.0', node: '22.0.0' })
const commandOf = (args: readonly string[], env?: Record<string, string>) => {
  const found = answer(args, env)
  assert(found.kind === 'cluster')
  return found.command
}

describe('trilog cluster', () => {
  it('asks the listener of its settings, or the one it is told', () => {
    const { secret, ...rest } = commandOf(['status'])
    assert.equal(secret, ENV.TRILOG_CLUSTER_SECRET)
    const url = 'http://127.0.0.1:7490'
    assert.deepEqual(rest, { name: 'status', url, ca: null, to: null, service: null, json: false })
    assert.equal(commandOf(['status', '--cluster-bind', '[::1]:7491']).url, 'http://[::1]:7491')
    assert.equal(commandOf(['status'], { ...ENV, TRILOG_CLUSTER_URL: 'https://a/' }).url, 'https://a')
    const asked = commandOf([
      'hand-over',
      '--to',
      'b',
      '--service',
      'broker',
      '--url',
      'http://b:1/',
      '--output',
      'json',
    ])
    assert.deepEqual(
      [asked.name, asked.to, asked.service, asked.url, asked.json],
      ['hand-over', 'b', 'broker', 'http://b:1', true],
    )
  })

  it('shows its help, and ends as after a mistake when it was not asked for', () => {
    for (const [args, exitCode] of [
      [[], 2],
      [['--help'], 0],
    ] as const) {
      const shown = answer(args)
      assert(shown.kind === 'say')
      assert.match(shown.text, /trilog cluster hand-over/)
      assert.equal(shown.exitCode, exitCode)
    }
  })

  for (const [args, message] of [
    [['stop'], /^trilog cluster needs one of: status, hand-over$/],
    [['status', 'now'], /^trilog cluster status takes no now/],
    [['status', '--to', 'b'], /^--to goes with hand-over$/],
    [['status', '--url', 'b:1'], /^--url must be an http or https URL$/],
    [['status', '--output', 'xml'], /^--output must be text or json$/],
    [['status', '--mq-data-dir', 'x'], /^--mq-data-dir is no flag of trilog cluster/],
  ] as const) {
    it(`refuses ${args.join(' ')}`, () => assert.throws(() => answer(args), { message }))
  }

  it('needs the settings of a cluster', () => {
    assert.throws(() => answer(['status'], {}), {
      message: 'TRILOG_CLUSTER_SERVERS must be set: these settings name no cluster',
    })
  })
})
