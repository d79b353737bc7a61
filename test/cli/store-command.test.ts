/** Contract "Commands": the command lines of `trilog backup`, `restore` and `inspect`, and how their results are shown. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspectText } from '../../src/cli/store-text.ts'
import { problemsOf } from '../../src/cli/settings-report.ts'
import { styleFor } from '../../src/cli/style.ts'
import { trilogCommand } from '../../src/cli/trilog-command.ts'
import { inspect } from '../../src/maintenance/inspect.ts'
import { mulberry32 } from '../support/sim-files.ts'
import { World } from '../support/log-harness.ts'
import { MovingStore } from '../support/moving-store.ts'

const answerTo = (...args: string[]) => trilogCommand(args, {}, { version: '1.2.3', node: '22.18.0' })
const mistakesOf = (...args: string[]): readonly string[] => problemsOf(() => answerTo(...args))

describe('trilog backup', () => {
  it('takes a data directory, a place, replicas and what is kept', () => {
    const args = [
      'backup',
      '--data-dir',
      'data',
      '--to',
      's3://b/p',
      '--replica-dir',
      '/a',
      '--replica-dir=/b',
      '--keep',
      '7',
    ]
    assert.deepEqual(
      answerTo(
        ...args,
        '--max-bytes-per-second',
        '5000000',
        '--endpoint-url',
        'https://s3.example',
        '--output',
        'json',
      ),
      {
        kind: 'store',
        command: {
          kind: 'backup',
          json: true,
          to: { place: 's3://b/p', endpoint: 'https://s3.example' },
          dataDirectory: 'data',
          replicas: ['/a', '/b'],
          keep: 7,
          bytesPerSecond: 5000000,
        },
      },
    )
  })

  it('tells every mistake at once', () => {
    assert.deepEqual(
      mistakesOf('backup', 'data', '--keep', '0', '--endpoint-url', 'ftp://x', '--output', 'xml', '--nope', 'x'),
      [
        '--nope is no flag of trilog backup: see trilog backup --help',
        '--output must be text or json',
        'trilog backup takes no data: see trilog backup --help',
        'trilog backup needs --to',
        '--endpoint-url must begin with http:// or https://',
        'trilog backup needs --data-dir',
        '--keep must be an integer from 1 on',
      ],
    )
    assert.deepEqual(mistakesOf('backup', '--check', '--to', 'x', '--keep', '1'), ['--keep does not go with --check'])
  })

  it('takes no address for a directory, and no credentials before a bucket, and repeats neither', () => {
    for (const place of ['s3://key:hunter2@bucket/x', 'https://me:hunter2@host/x', 's3://'])
      assert.deepEqual(mistakesOf('backup', '--check', '--to', place), [
        '--to must be a directory, or s3://bucket/prefix',
      ])
    assert.deepEqual(mistakesOf('backup', '--check', '--to', 's3://my.bucket_1'), [])
  })
})

it('a command stands before its flags', () => {
  assert.deepEqual(mistakesOf('--services', 'broker', 'backup'), ['trilog backup must stand before its flags'])
})

describe('trilog restore', () => {
  it('takes a place, a data directory, and how far', () => {
    const args = [
      'restore',
      '--from',
      'b',
      '--data-dir',
      'd',
      '--service',
      'broker',
      '--snapshot',
      '3',
      '--to-position',
      '0',
    ]
    assert.deepEqual(answerTo(...args), {
      kind: 'store',
      command: {
        kind: 'restore',
        json: false,
        from: { place: 'b', endpoint: null },
        dataDirectory: 'd',
        service: 'broker',
        snapshot: 3,
        position: 0,
      },
    })
    assert.deepEqual(answerTo('restore', '--check', '--from', 'b'), {
      kind: 'store',
      command: { kind: 'check', json: false, from: { place: 'b', endpoint: null } },
    })
    assert.deepEqual(mistakesOf('restore', '--to-position', '-1'), [
      '--to-position needs a value',
      '-1 is no flag of trilog restore: see trilog restore --help',
      'trilog restore needs --from',
      'trilog restore needs --data-dir',
    ])
  })
})

describe('trilog inspect', () => {
  it('takes one directory', () => {
    assert.deepEqual(answerTo('inspect', 'data'), {
      kind: 'store',
      command: { kind: 'inspect', json: false, dataDirectory: 'data' },
    })
    assert.deepEqual(mistakesOf('inspect'), ['trilog inspect needs a data directory'])
    assert.deepEqual(mistakesOf('inspect', 'a', 'b'), ['trilog inspect takes no b: see trilog inspect --help'])
  })

  it('shows aligned columns, in colour on a terminal only', async () => {
    const store = await MovingStore.open(1, mulberry32(1))
    for (let n = 0; n < 300; n += 1) store.act()
    store.settle()
    const logs = inspect(store.world.files, '/data')
    const plain = inspectText(logs, styleFor({ isTTY: false }, {}))
    const rows = plain.filter((line) => /^ {2}[0-9a-f]{16} /.test(line))
    assert.equal(rows.length, logs[0]!.segments.length)
    assert.equal(new Set(rows.map((line) => line.search(/\d+ to \d+/))).size, 1)
    assert.equal(plain.at(-1), 'whole')
    const coloured = inspectText(logs, styleFor({ isTTY: true }, { TERM: 'xterm' }))
    assert.equal(coloured.at(-1), '\u001b[32mwhole\u001b[0m')
    assert.deepEqual(inspectText(logs, styleFor({ isTTY: true }, { NO_COLOR: '1' })), plain)
  })

  it('calls a log that has nothing in it empty, as nothing tells its service', async () => {
    const world = new World({ seed: 1 })
    await (await world.open({ directory: '/data/objectstore' })).close()
    const logs = inspect(world.files, '/data')
    const lines = inspectText(logs, styleFor({ isTTY: false }, {}))
    assert.deepEqual([lines[0], lines.at(-1)], ['empty log in objectstore', 'whole'])
  })
})

it('the help of each command names all its flags, and the completion offers them', () => {
  const said = (...args: string[]): string => {
    const answer = answerTo(...args)
    assert(answer.kind === 'say' && answer.exitCode === 0)
    return answer.text
  }
  const script = said('completion', 'bash')
  for (const name of ['backup', 'restore', 'inspect']) {
    const help = said(name, '--help')
    const [, offered = ''] = new RegExp(`'${name}'\\) words='([^']*)'`).exec(script) ?? []
    assert(offered.includes('--output'), script)
    for (const flag of offered.split(' ')) if (flag !== '--help') assert(help.includes(flag), `${name} ${flag}`)
    assert(said('--help').includes(`trilog ${name}`))
  }
})
