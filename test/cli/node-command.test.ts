/** Specification "Startup flags of mq" and contract "Broker": the configuration that a command line gives. */
import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, it } from 'node:test'
import { brokerSettings } from '../../src/config/broker.ts'
import type { BrokerConfig } from '../../src/config/broker.ts'
import { clusterSettings } from '../../src/config/cluster.ts'
import { processSettings } from '../../src/config/process.ts'
import { nodeCommand } from '../../src/cli/node-command.ts'
import { problemsOf } from '../../src/cli/settings-report.ts'
import type { SettingsReport } from '../../src/cli/settings-report.ts'

type Environment = Readonly<Record<string, string>>

const answerTo = (args: readonly string[], env: Environment = {}) =>
  nodeCommand(args, env, { version: '1.2.3', node: '22.18.0' })

function said(args: readonly string[], env: Environment = {}): { text: string; exitCode: number } {
  const answer = answerTo(args, env)
  assert(answer.kind === 'say')
  return answer
}

function started(args: readonly string[], env: Environment = {}): BrokerConfig {
  const answer = answerTo(args, env)
  assert(answer.kind === 'start')
  assert.equal(answer.config.services.logstore, null)
  assert(answer.config.services.broker)
  return answer.config.services.broker
}

const mistakesOf = (args: readonly string[], env: Environment = {}): readonly string[] =>
  problemsOf(() => answerTo(args, env))

const reportOf = (args: readonly string[], env: Environment = {}): { report: SettingsReport; exitCode: number } => {
  const { text, exitCode } = said(['--validate-config', '--output', 'json', ...args], env)
  return { report: JSON.parse(text) as SettingsReport, exitCode } // the tests check the members
}

describe('mq', () => {
  it('without flags starts the broker, and nothing else, with the defaults', () => {
    const { http, nodeId, dataDirectory } = started([])
    assert.deepEqual(
      [http, nodeId, dataDirectory],
      [{ host: '127.0.0.1', port: 7400 }, 'node-1', resolve('data/broker')],
    )
  })

  it('takes every setting as a flag', () => {
    const line =
      '--node-id eu-1 --http-bind 127.0.0.1:0 --data-dir=/data --flush-policy append-only --auth-mode insecure-local ' +
      '--metrics-exposure http --replica-dir /a --replica-dir /b --write-quorum 2 --max-body-bytes 1024 --segment-bytes 1048576'
    const config = started(line.split(' '))
    assert.deepEqual(
      [config.nodeId, config.http.port, config.dataDirectory, config.flushPolicy, config.metricsExposure],
      ['eu-1', 0, '/data', 'append-only', 'http'],
    )
    assert.deepEqual([config.replicaDirectories, config.writeQuorum], [['/a', '/b'], 2])
    assert.deepEqual([config.bodyBytesMax, config.segmentBytes], [1024, 1_048_576])
  })

  it('takes what is no flag from the environment', () => {
    const config = started(['--node-id', 'flag'], { MQ_NODE_ID: 'variable', MQ_MAX_BODY_BYTES: '2048' })
    assert.deepEqual([config.nodeId, config.bodyBytesMax], ['flag', 2048])
  })

  it('tells every mistake of a command line and of its values, one sentence each', () => {
    const line =
      'start --nodeid x -v --version=1 --http-bind --data-dir= --write-quorum 9 --node-id a --node-id b --max-body-bytes'
    assert.deepEqual(mistakesOf(line.split(' '), { MQ_SEGMENT_BYTES: '1', TRILOG_LOG_LEVEL: 'loud' }), [
      '--nodeid is no flag of mq: see mq --help',
      '-v is no flag of mq: see mq --help',
      '--version takes no value',
      '--http-bind needs a value',
      '--data-dir needs a value',
      '--node-id must be given once',
      '--max-body-bytes needs a value',
      'mq has no command start: see mq --help',
      'TRILOG_LOG_LEVEL must be trace or debug or info or warn or error or fatal or silent',
      '--write-quorum must be a whole number from 1 to 8',
      'MQ_SEGMENT_BYTES must be a whole number from 1048576 to 1073741824',
    ])
  })

  it('leaves groups of commands to those who know them', () => {
    for (const group of ['cli', 'diagnostics', 'completion']) {
      assert.deepEqual(answerTo([group, '--whatever', 'x']), { kind: 'group' })
    }
  })
})

describe('mq --version', () => {
  it('shows the release, as text or JSON, and starts nothing', () => {
    assert.deepEqual(said(['--version']), { kind: 'say', text: 'mq 1.2.3\nnode 22.18.0', exitCode: 0 })
    assert.equal(said(['--output', 'text', '--version', '--node-id', 'x']).text, 'mq 1.2.3\nnode 22.18.0')
    assert.deepEqual(JSON.parse(said(['--version', '--output', 'json']).text), {
      name: 'mq',
      version: '1.2.3',
      node: '22.18.0',
    })
  })

  it('does not look at the settings, but at the command line', () => {
    assert.equal(said(['--version'], { MQ_HTTP_BIND: 'nowhere' }).exitCode, 0)
    assert.deepEqual(mistakesOf(['--version', '--fast']), ['--fast is no flag of mq: see mq --help'])
    assert.deepEqual(mistakesOf(['--version', '--output', 'xml']), ['--output must be text or json'])
    assert.deepEqual(mistakesOf(['--output', 'json']), ['--output goes with --version or --validate-config'])
  })
})

describe('mq --validate-config', () => {
  it('shows every setting, its value and where it comes from', () => {
    const { report, exitCode } = reportOf(['--node-id', 'flag', '--replica-dir', '/a', '--replica-dir', '/b'], {
      MQ_NODE_ID: 'variable',
      MQ_DATA_DIR: 'data',
      TRILOG_LOG_LEVEL: 'debug',
      MQ_NODEID: 'x',
    })
    assert.deepEqual([report.valid, report.problems, exitCode], [true, [], 0])
    assert.deepEqual(report.warnings, ['MQ_NODEID is no setting'])
    const rows = Object.fromEntries(
      report.settings.map(({ variable, flag, value, source }) => [variable, [flag, value, source]]),
    )
    assert.deepEqual(rows['MQ_NODE_ID'], ['--node-id', 'flag', 'flag'])
    assert.deepEqual(rows['MQ_DATA_DIR'], ['--data-dir', 'data', 'environment'])
    assert.deepEqual(rows['MQ_HTTP_BIND'], ['--http-bind', '127.0.0.1:7400', 'default'])
    assert.deepEqual(rows['MQ_REPLICA_DIRS'], ['--replica-dir', '/a,/b', 'flag'])
    assert.deepEqual(rows['MQ_QUOTAS_FILE'], ['--quotas-file', null, 'default'])
    assert.deepEqual(rows['TRILOG_LOG_LEVEL'], [null, 'debug', 'environment'])
    assert.deepEqual(
      Object.keys(rows).filter((name) => name.startsWith('MQ_')),
      Object.keys(brokerSettings),
    )
  })

  it('has exit code 2 and names the problems when something is wrong, on the command line too', () => {
    const { report, exitCode } = reportOf(['--write-quorum', 'x', '--fast'], { MQ_HTTP_BIND: '7400' })
    assert.deepEqual([report.valid, exitCode], [false, 2])
    assert.deepEqual(report.problems, [
      '--fast is no flag of mq: see mq --help',
      'MQ_HTTP_BIND must be host:port, as in 127.0.0.1:8080 or [::1]:8080',
      '--write-quorum must be a whole number from 1 to 8',
    ])
  })

  it('shows the same as text', () => {
    const { text, exitCode } = said(['--validate-config', '--write-quorum', '2'], { MQ_NODE_ID: 'eu-1', MQ_X: '' })
    assert.equal(exitCode, 2)
    const lines = text.split('\n')
    assert.match(lines[0]!, /^setting +value +from$/)
    assert.ok(lines.some((line) => /^--node-id +eu-1 +MQ_NODE_ID$/.test(line)))
    assert.ok(lines.some((line) => /^--quotas-file +unset +default$/.test(line)))
    assert.deepEqual(lines.slice(-3), [
      'warning: MQ_X is no setting',
      'problem: --write-quorum must be 1 to 1: the data directory and the directories of --replica-dir',
      'invalid',
    ])
    assert.equal(said(['--validate-config']).text.split('\n').at(-1), 'valid')
  })
})

describe('mq --help', () => {
  it('shows every flag with its variable, its default and what it is for', () => {
    const { text, exitCode } = said(['--help'])
    assert.equal(exitCode, 0)
    for (const [name, { flag, description }] of Object.entries(brokerSettings)) {
      const index = text.indexOf(`  ${flag} <`)
      assert.notEqual(index, -1, flag)
      const [head, meaning] = text.slice(index).split('\n')
      assert.match(head!, new RegExp(` ${name} +\\S+$`))
      assert.equal(meaning?.trim(), description.replaceAll('`', ''))
    }
  })
  it('shows the variables of the process and of the cluster', () => {
    const { text } = said(['--help'])
    for (const [name, { default: fallback = 'unset', description }] of Object.entries({
      ...processSettings,
      ...clusterSettings,
    })) {
      const meaning = description.replaceAll('`', '')
      assert.match(text, new RegExp(`^  ${name} +${fallback || 'empty'}\n +${meaning}$`, 'm'))
    }
  })
})
