import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'

const run = (name: string, ...args: string[]) =>
  spawnSync(
    process.execPath,
    [fileURLToPath(new URL(`../../../scripts/compare/${name}.ts`, import.meta.url)), ...args],
    {
      encoding: 'utf8',
      env: { ...process.env, PATH: '' }, // only trilog, whatever else is installed
    },
  )

describe('the comparison of pipelines', () => {
  it('measures trilog over both ways, and leaves out what is not there', () => {
    const { status, stdout, stderr } = run(
      'pipelines',
      '--rounds',
      '1',
      '--records',
      '2000',
      '--alone',
      '5',
      '--parts',
      'piped,alone',
    )
    assert.equal(status, 0, stderr)
    assert.match(stdout, /'trilog, connection \(local-sync\)' │ [1-9]\d* +│ 1 /)
    assert.match(stdout, /'trilog, HTTP' +│ [1-9]/)
    assert.match(stderr, /left out: there is no redis-server/)
  })

  it('takes no nonsense', () => {
    for (const args of [
      ['--rounds', '0'],
      ['--parts', 'all'],
      ['--speed', '1'],
    ]) {
      const { status, stderr } = run('pipelines', ...args)
      assert.deepEqual([status, stderr.startsWith('usage: ')], [2, true], args.join(' '))
    }
  })
})

describe('the comparison of modes', () => {
  it('measures a node that asks for nothing, for a key, and over TLS', () => {
    const { status, stdout, stderr } = run(
      'modes',
      '--rounds',
      '1',
      '--duration',
      '1s',
      '--connections',
      '4',
      '--parts',
      'modes',
    )
    assert.equal(status, 0, stderr)
    for (const mode of ['insecure-local', 'api-key', 'TLS']) assert.match(stdout, new RegExp(`'${mode}' +│ [1-9]`))
  })

  it('measures how far a target is behind', () => {
    const args = ['--replicate', '1s', '--rate', '500', '--batch', '50', '--parts', 'replicate']
    const { status, stdout, stderr } = run('modes', ...args)
    assert.equal(status, 0, stderr)
    assert.match(stdout, /│ 500 +│ [1-9]/)
  })
})
