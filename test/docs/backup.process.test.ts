/** The steps of docs/backup.md, run like a reader would, against real processes. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { it } from 'node:test'
import { storeFlags } from '../../src/cli/store-command.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { RunningService, launch } from '../support/process.ts'
import type { Command, ReadyLine } from '../support/process.ts'
import { eventually } from '../support/waiting.ts'
import { blocksOf, document } from './markdown.ts'
import { entryFile } from '../support/entry.ts'

const page = document('docs/backup.md')
const BLOCK_END = '-- end of block --'

/** All services in one process, with their data below a directory. */
class Trilog extends RunningService {
  static async start(directory: string): Promise<Trilog> {
    const command: Command = {
      entry: 'src/start.js',
      args: [],
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: `${directory}/data/logstore`,
        OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
        OBJSTORE_DATA_DIR: `${directory}/data/objectstore`,
        MQ_HTTP_BIND: '127.0.0.1:0',
        MQ_DATA_DIR: `${directory}/data/broker`,
      },
    }
    const trilog = new Trilog(command, await launch(command))
    await eventually(() => trilog.stdout.includes('"broker"'))
    return trilog
  }

  get objectStore(): string {
    const line = /^ready (\{"service":"objectstore".*\})$/m.exec(this.stdout)![1]!
    return (JSON.parse(line) as ReadyLine).http // the contract says so
  }
}

/** Text without padding, as the width of columns depends on their content. */
const withoutPadding = (shown: string): string => shown.trim().replaceAll(/ +/g, ' ')

/** A pattern in which … matches anything within a line. */
const patternOf = (shown: string): RegExp => new RegExp(`^${shown.split('…').map(escaped).join('[^\\n]*')}$`)

const escaped = (part: string): string => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

it('the tour runs block by block, and shows what it says', async () => {
  const directory = temporaryDirectory()
  const trilog = await Trilog.start(directory)
  const blocks = blocksOf(page.replaceAll('127.0.0.1:9000', trilog.objectStore), 'tour')
  const steps = blocks.filter(({ language }) => language === 'sh')
  const preamble = `npx() { shift; '${process.execPath}' '${entryFile('src/cli/trilog.js')}' "$@"; }\n`
  const script = preamble + steps.map((step) => step.text).join(`\necho '${BLOCK_END}'\n`)
  const env = { ...process.env, TMPDIR: directory } // here mktemp makes the directory of the backup
  const child = spawn('sh', ['-e'], { cwd: directory, env, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(script)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  assert.deepEqual([code, stderr], [0, ''], stdout)
  const outputs = stdout.split(`${BLOCK_END}\n`)
  assert.equal(outputs.length, steps.length)
  for (const [number, step] of steps.entries()) {
    const shown = blocks[blocks.indexOf(step) + 1]!
    assert.equal(shown.language, 'text')
    assert.match(withoutPadding(outputs[number]!), patternOf(withoutPadding(shown.text)), step.text)
  }
  for (const [restored, note] of [
    ['restored', 'second\n'],
    ['earlier', 'first\n'],
  ]) {
    const [found] = globSync(`${directory}/tmp.*/${restored}/objectstore`)
    const server = await ObjectStoreServer.start({ env: { OBJSTORE_DATA_DIR: found! } })
    assert.equal((await server.request('GET', '/album/note')).text, note)
    await server.stop()
  }
  await trilog.stop()
})

it('the flags that the page names are those of the commands', () => {
  const known = new Set((['backup', 'restore', 'inspect'] as const).flatMap((name) => storeFlags(name)))
  const others = new Set(['--services', '--objstore-data-dir', '--objstore-bind-address', '--data-binary'])
  const named = page.match(/(?<![\w-])--[a-z][a-z-]+/g)!
  assert.deepEqual(
    [...new Set(named)].filter((flag) => !known.has(flag) && !others.has(flag)),
    [],
  )
  for (const flag of known) if (flag !== '--help') assert(named.includes(flag), flag)
})
