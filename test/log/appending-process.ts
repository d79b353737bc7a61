/**
 * A process that appends numbered frames to the log in the directory of its first argument until it is killed. It prints on stdout up to
 * which number the frames are acknowledged. Run by real-files.process.test.ts.
 */
import fs from 'node:fs'
import { Log } from '../../src/log/log.ts'
import { append, openWriter, payloadOf } from '../support/log-harness.ts'

const [directory, from] = [process.argv[2]!, Number(process.argv[3])]
const IN_FLIGHT = 64

const log = await Log.open({ directory, segmentBytes: 256 << 10, ringBytes: 1 << 20 })
const writer = openWriter(log)
const waiting: number[] = []
let next = from
let acknowledged = from

function pump(): void {
  while (waiting.length > 0 && waiting[0]! <= log.committed) {
    waiting.shift()
    acknowledged += 1
  }
  fs.writeSync(1, `${acknowledged}\n`)
  while (waiting.length < IN_FLIGHT) {
    const result = append(writer, payloadOf(next, 100 + (next % 1000)))
    if (typeof result === 'string') break
    waiting.push(result.end)
    next += 1
  }
}
log.onProgress(pump)
pump()
