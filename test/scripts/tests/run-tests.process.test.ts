/** The test runner on files that fail in known ways: short output, each failure under its own file, totals last. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryDirectory } from '../../support/directories.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const FIXTURES = 'test/scripts/tests/fixtures'

interface Run {
  readonly code: number
  readonly lines: readonly string[]
  /** The text below `FAILED <file>`. */
  readonly failuresOf: (fixture: string) => string
}

/** @param fixtures run in one process, unless the options say otherwise */
function runTests(fixtures: readonly string[], ...options: readonly string[]): Promise<Run> {
  const args = [
    `${root}scripts/test.ts`,
    '--processes',
    '1',
    ...options,
    ...fixtures.map((name) => `${FIXTURES}/${name}.ts`),
  ]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: root, encoding: 'utf8' }, (error, stdout, stderr) => {
      if (stderr !== '') return reject(new Error(stderr))
      const failuresOf = (fixture: string): string => {
        const [, below] = stdout.split(`\nFAILED ${FIXTURES}/${fixture}.ts\n`)
        assert(below !== undefined, `${fixture} is not among the failures:\n${stdout}`)
        return below.split('\nFAILED ')[0]!
      }
      resolve({ code: Number(error?.code ?? 0), lines: stdout.trimEnd().split('\n'), failuresOf })
    })
  })
}

describe('a run of tests', { concurrency: 2 }, () => {
  it('that all pass ends with 0, in a few lines, of which the last has the totals', async () => {
    const { code, lines } = await runTests(['waits', 'passes'])
    assert.equal(code, 0)
    assert(lines.length < 10, lines.join('\n'))
    assert.equal(lines.at(-1), '3 passed, 0 failed, 2 skipped')
  })

  it('shows each failure under its file, with place, suite, difference and what was printed, and the totals last', async () => {
    const { code, lines, failuresOf } = await runTests(['waits', 'fails', 'passes'])
    assert.equal(code, 1)
    assert.equal(lines.at(-1), '4 passed, 5 failed, 2 skipped')
    const shown = failuresOf('fails')
    assert.match(shown, /fixtures\/fails\.ts:6 {2}a suite > differs\n.*\n[^]*-   kind: 'expected'\n[^]*noted: SEED=7\n/)
    assert.match(shown, /fixtures\/fails\.ts:11 {2}a suite > rejects beside itself\n +Error: beside\n/)
    assert.match(shown, /a suite without its server\n +Error: the server did not start\n/)
    assert.match(shown, /2 tests of it did not run/)
    assert.match(shown, /its process printed last:\n +a hint on stdout\n/)
    assert.equal(lines.filter((line) => line.startsWith('FAILED ')).length, 1)
  })

  it('names the file that left an error behind, not the one that runs when it appears', async () => {
    const { code, lines, failuresOf } = await runTests(['late', 'waits', 'passes'])
    assert.equal(code, 1)
    assert.match(failuresOf('late'), /Error: a late timer\n +at .*fixtures\/late\.ts:5[^]*Error: a late rejection\n/)
    assert.equal(lines.filter((line) => line.startsWith('FAILED ')).length, 1)
    assert.equal(lines.at(-1), '4 passed, 2 failed, 2 skipped')
  })

  it('goes on after a file that throws, or whose process is killed, ends or waits for nothing', async () => {
    const { code, lines, failuresOf } = await runTests(['throws', 'killed', 'exits', 'stuck', 'passes'])
    assert.equal(code, 1)
    assert.match(failuresOf('throws'), /the file itself\n +Error: the file is broken\n/)
    assert.match(failuresOf('killed'), /its process ended in the middle of it, with SIGKILL/)
    assert.match(failuresOf('exits'), /its process ended in the middle of it, with exit code 0/)
    assert.match(
      failuresOf('stuck'),
      /stuck\.ts:3 is never woken\n +Error: waits for what can no longer happen: .*\n[^]*2 tests of it did not run/,
    )
    assert.match(lines.at(-1)!, /^3 passed, \d failed$/)
  })

  it('ends with a file what it leaves behind, and runs its outer hooks for it alone', async () => {
    const { lines } = await runTests(['leaves', 'finds', 'passes'])
    assert.equal(lines.at(-1), '4 passed, 0 failed')
  })

  it('names an outer hook that fails', async () => {
    const { lines, failuresOf } = await runTests(['fails-first', 'passes'])
    assert.match(
      failuresOf('fails-first'),
      /a hook of the file\n +Error: nothing was prepared\n[^]*1 tests of it did not run/,
    )
    assert.equal(lines.at(-1), '2 passed, 2 failed')
  })

  it('ends a process from which nothing is heard, and says what it was doing', async () => {
    const { code, lines, failuresOf } = await runTests(['spins', 'passes'], '--silent-ms', '5000')
    assert.equal(code, 1)
    assert.match(
      failuresOf('spins'),
      /spins\.ts:5 never ends\n +nothing was heard of it for 5 s, and its process was ended in\n[^]*at forEver \(.*spins\.ts:\d/,
    )
    assert.match(lines.at(-1)!, /1 failed/)
  })

  it('ends the process of a file whose failed test left a server open, and goes on in another', async () => {
    const { code, lines, failuresOf } = await runTests(['leaves-open', 'passes'])
    assert.equal(code, 1)
    assert.match(failuresOf('leaves-open'), /fails before it closes its server\n +Error: the server stays\n/)
    assert.equal(lines.at(-1), '2 passed, 1 failed')
  })

  it('runs each file in a process of its own when it is told so', async () => {
    const { code, lines } = await runTests(['passes', 'waits', 'passes'], '--alone')
    assert.deepEqual([code, lines.at(-1)], [0, '5 passed, 0 failed, 2 skipped'])
  })

  it('fails when the coverage is below its bound, and says so', async () => {
    const directory = temporaryDirectory()
    const config = `${directory}/c8.json`
    const settings = {
      all: true,
      include: [`${FIXTURES}/*.ts`],
      exclude: [],
      reporter: ['text-summary'],
      'temp-directory': `${directory}/coverage`,
      'check-coverage': true,
      lines: 100,
    }
    writeFileSync(config, JSON.stringify(settings))
    const { code, lines } = await runTests(['passes'], '--coverage', config)
    assert.equal(code, 1)
    assert.match(lines.join('\n'), /Lines +: [\d.]+%[^]*FAILED .*c8\.json[^]*does not meet global threshold \(100%\)/)
    assert.equal(lines.at(-1), '2 passed, 1 failed')
    rmSync(directory, { recursive: true })
  })
})
