import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import type { JournalLane, LogEnvironment } from '../../src/log/environment.ts'
import { Log } from '../../src/log/log.ts'
import type { LogOptions } from '../../src/log/log.ts'
import { nodeEnvironment } from '../../src/log/node-environment.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { prepareFile } from '../../src/log/prepare-file.ts'
import { Arena } from '../../src/pipeline/arena.ts'
import { Lane } from '../../src/pipeline/lane.ts'
import { eventually } from '../support/waiting.ts'
import { appended, openWriter, payloadOf, replay } from '../support/log-harness.ts'

const CHILD = fileURLToPath(new URL('appending-process.ts', import.meta.url))
const root = fs.mkdtempSync(path.join(os.tmpdir(), 'trilog-log-'))

let directories = 0
const newDirectory = () => path.join(root, String((directories += 1)))

/** A journal lane for a log that is only read. */
const NO_LANE: JournalLane = { post() {}, stop: async () => {} }

/** Resolves when the log has committed up to a position. */
const committed = (log: Log, end: number) =>
  new Promise<void>((resolve) => {
    const look = () => log.committed >= end && resolve()
    log.onProgress(look)
    look()
  })

/** A log on this machine, and its lanes. */
async function openReal(
  options: Partial<LogOptions> & { directory: string },
): Promise<{ log: Log; lanes: JournalLane[] }> {
  const lanes: JournalLane[] = []
  const environment = {
    ...nodeEnvironment,
    startJournal: (...args: Parameters<typeof nodeEnvironment.startJournal>) => {
      const lane = nodeEnvironment.startJournal(...args)
      lanes.push(lane)
      return lane
    },
  }
  return { log: await Log.open({ ...options, environment }), lanes }
}

describe('on a real disk', () => {
  after(() => fs.rmSync(root, { recursive: true, force: true }))

  describe('a log on this machine', () => {
    it('keeps what it committed across close and open, rotating segments on the way', async () => {
      const directory = newDirectory()
      const arena = Arena.create(1 << 20)
      const options = { directory, arena: arena.shared, segmentBytes: 256 << 10 }
      const log = await Log.open(options)
      const writer = openWriter(log)
      const external = payloadOf(1, 50_000)
      const offset = arena.allocate(external.byteLength)
      external.copy(arena.bytes, offset)
      const payloads: Buffer[] = []
      for (let n = 0; n < 100; n += 1) {
        payloads.push(appended(writer, payloadOf(n, 3000)).payload)
        if (n % 10 !== 0) continue
        assert.equal(writer.tryBegin(2, 0, offset, external.byteLength, 'sync', 'admit'), 'ok')
        writer.publish(crc32(external))
        payloads.push(external)
      }
      await committed(log, writer.end)
      await log.close()

      const reopened = await Log.open(options)
      assert.ok(reopened.segments.length > 2)
      assert.deepEqual(reopened.incidents, [])
      const { frames } = replay(reopened, nodeFiles)
      assert.ok(frames.length === payloads.length && frames.every(({ payload }, n) => payload.equals(payloads[n]!)))
      await reopened.close()
    })

    it('goes on after its journal thread was killed', async () => {
      const { log, lanes } = await openReal({ directory: newDirectory() })
      const writer = openWriter(log)
      const before = appended(writer, payloadOf(1, 100))
      await committed(log, before.end)
      const restarted = new Promise<void>((resolve) => log.onStateChange(({ kind }) => kind === 'ok' && resolve()))
      const [lane] = lanes
      assert(lane instanceof Lane)
      await lane.terminate()
      await restarted
      const behind = appended(writer, payloadOf(2, 100))
      await committed(log, behind.end)
      assert.deepEqual(
        [before, behind].map(({ end, generation }) => log.outcome(end, generation)),
        ['stored', 'stored'],
      )
      await log.close()
    })

    it('commits by quorum over three directories', async () => {
      const replicas = [newDirectory(), newDirectory()]
      const log = await Log.open({ directory: newDirectory(), replicas, writeQuorum: 2 })
      const { end } = appended(openWriter(log), payloadOf(1, 100), { durability: 'quorum' })
      await committed(log, end)
      await log.close()
    })

    it('takes a replica directory in again that was away for a while, and fills it', async () => {
      const [directory, replica] = [newDirectory(), newDirectory()]
      const environment: LogEnvironment = {
        ...nodeEnvironment,
        every: (ms, run) => nodeEnvironment.every(ms / 50, run),
      }
      const log = await Log.open({
        directory,
        replicas: [replica],
        writeQuorum: 1,
        segmentBytes: 64 << 10,
        environment,
      })
      const writer = openWriter(log)
      const write = async (): Promise<void> => {
        for (let n = 0; n < 50; n += 1) appended(writer, payloadOf(n, 3000))
        await committed(log, writer.end)
      }
      await write()
      await eventually(() => log.released === writer.end) // the replica creates no more directories
      fs.renameSync(replica, `${replica}-away`)
      await eventually(() => log.state.kind === 'degraded')
      await write()
      fs.renameSync(`${replica}-away`, replica)
      await eventually(() => {
        writer.poll()
        return log.state.kind === 'ok'
      })
      await write()
      await log.close()
      for (const { recordsPath } of log.segments) {
        assert(
          fs.readFileSync(recordsPath.replace(directory, replica)).equals(fs.readFileSync(recordsPath)),
          recordsPath,
        )
      }
      assert(log.segments.length > 6)
    })

    it('writes a file in advance, whole or not at all', async () => {
      const directory = newDirectory()
      fs.mkdirSync(directory)
      await prepareFile(`${directory}/spare`, (3 << 20) + 8, () => false)
      assert.equal(fs.statSync(`${directory}/spare`).size, (3 << 20) + 8)
      await prepareFile(`${directory}/cancelled`, 1 << 20, () => true)
      await assert.rejects(
        prepareFile(`${directory}/absent/spare`, 1 << 20, () => false),
        { code: 'ENOENT' },
      )
      assert.deepEqual(fs.readdirSync(directory), ['spare'])
    })

    it('cannot be opened where there is a file in the way', async () => {
      const directory = newDirectory()
      fs.writeFileSync(directory, '')
      await assert.rejects(Log.open({ directory: `${directory}/data` }), { code: 'data_directory_unusable' })
    })

    it('cannot be opened where the lock file cannot be written: what to do is said, and the lock is given back', async () => {
      const directory = newDirectory()
      fs.mkdirSync(`${directory}/LOCK`, { recursive: true }) // no permission helps against this
      await assert.rejects(Log.open({ directory }), {
        code: 'data_directory_unusable',
        message: /cannot be created or written: EISDIR.*\. Choose another data directory, or give this process access$/,
      })
      fs.rmdirSync(`${directory}/LOCK`)
      await (await Log.open({ directory })).close()
    })
  })

  describe('a second log on one directory', () => {
    it('is refused in the same process until the first is closed', async () => {
      const directory = newDirectory()
      const first = await Log.open({ directory })
      await assert.rejects(Log.open({ directory }), {
        code: 'data_directory_locked',
        message: `${directory} is in use by this process: choose another data directory`,
      })
      await first.close()
      await (await Log.open({ directory })).close()
    })

    it('is refused while another process has it, naming the pid, and not after that was killed', async () => {
      const directory = newDirectory()
      const child = spawn(process.execPath, [CHILD, directory, '0'], { stdio: ['ignore', 'pipe', 'inherit'] })
      const exited = once(child, 'exit')
      await once(child.stdout, 'data')
      await assert.rejects(Log.open({ directory }), {
        code: 'data_directory_locked',
        message: new RegExp(`in use by process ${child.pid!}`),
      })
      child.kill('SIGKILL')
      await exited
      await (await Log.open({ directory })).close()
    })
  })

  describe('a process killed while it appends', () => {
    it('leaves every acknowledged frame, in order, ten times in a row', async () => {
      const directory = newDirectory()
      let count = 0
      for (let round = 0; round < 10; round += 1) {
        const child = spawn(process.execPath, [CHILD, directory, String(count)], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        const exited = once(child, 'exit')
        let acknowledged = count
        let lines = 0
        for await (const line of createInterface(child.stdout)) {
          acknowledged = Number(line)
          lines += 1
          if (lines === 2 + round * 7) child.kill('SIGKILL') // the rest of its output is still read
        }
        await exited

        const log = await Log.open({ directory, environment: { ...nodeEnvironment, startJournal: () => NO_LANE } })
        const { frames, damage } = replay(log, nodeFiles)
        assert.deepEqual([damage, log.incidents], [[], []])
        assert.ok(frames.length >= acknowledged, `${acknowledged} acknowledged, ${frames.length} found`)
        for (let n = count; n < frames.length; n += 1) {
          assert.ok(frames[n]!.payload.equals(payloadOf(n, 100 + (n % 1000))), `frame ${n}`)
        }
        count = frames.length
        await log.close()
      }
      assert.ok(count > 500)
    })
  })
})
