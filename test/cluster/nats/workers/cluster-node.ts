/**
 * A node with a log in memory, as a process. Requests come on stdin, answers go to stdout, each as a line of JSON. The node reads its log
 * from the beginning of the stream, so it may be killed at any moment. Arguments: the servers, and the name of the node.
 */
import { randomInt } from 'node:crypto'
import { createInterface } from 'node:readline'
import { crc32 } from '../../../../native-free-codecs/crc32.ts'
import { FRAME_HEADER_BYTES, encodeFrameHeader, frameBytes } from '../../../../native-free-codecs/frame.ts'
import { framesOf, messagesOf } from '../../../../src/cluster/groups.ts'
import type { WholeFrame } from '../../../../src/cluster/groups.ts'
import { STREAM_BEGIN } from '../../../../src/cluster/history.ts'
import { LOG_BEGIN, writerOf } from '../../../../src/cluster/message.ts'
import type { LogPlace } from '../../../../src/cluster/message.ts'
import { NatsStream } from '../../../../src/cluster/nats/nats-stream.ts'
import { Session } from '../../../../src/cluster/nats/session.ts'
import type { LogAction } from '../../../../src/cluster/nats/session.ts'
import { systemClock } from '../../../../src/observability/system-clock.ts'

export interface NodeRequest {
  readonly request: number
  readonly kind: 'write' | 'read' | 'look' | 'hand over'
  /** For a write: the id to be written. */
  readonly id?: number
}

export interface NodeReply {
  readonly request: number
  readonly isAnswered: boolean
  /** For a read or a write: entries in the log, including the one written. */
  readonly version?: number
  /** For `look`: all confirmed ids. */
  readonly ids?: readonly number[]
  readonly role?: string
  readonly epoch?: number
}

const TIMES = { leaseMs: 2000, followMs: 3000, spreadMs: 500, beatMs: 400, ackMs: 500, lookMs: 500, pauseMs: 20 }
const [servers = '', name = ''] = process.argv.slice(2)

const stream = await NatsStream.open({
  connection: { servers: servers.split(','), reconnectTimeWait: 200, timeout: 2000 },
  cluster: 'test',
  service: 'broker',
  replicas: servers.includes(',') ? 3 : 1,
  keepBytes: 64 << 20,
  keepMs: null,
  log: null,
  randomUint32: () => randomInt(2 ** 32),
  nowMs: () => performance.now(),
  after: (delayMs, run) => systemClock.wait(delayMs, run),
})
/** Ids, with the frames that brought them. */
const log: (WholeFrame & { readonly id: number })[] = []
let confirmed = 0
let offered = 0
let isDue = false
const waiting: { readonly version: number; readonly request: number }[] = []

const session = new Session({
  stream,
  writer: writerOf(name, String(randomInt(2 ** 40))),
  times: TIMES,
  anchor: STREAM_BEGIN,
  clock: { nowMs: () => systemClock.nowMs(), after: (delayMs, run) => systemClock.wait(delayMs, run) },
  random: () => randomInt(2 ** 32) / 2 ** 32,
  act,
  onChange: tell,
})
createInterface({ input: process.stdin }).on('line', (line) => ask(JSON.parse(line) as NodeRequest))
say({ request: 0, isAnswered: true })

function say(reply: NodeReply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`)
}

function ask({ request, kind, id = 0 }: NodeRequest): void {
  const { node } = session
  if (kind === 'look') {
    const ids = log.slice(0, confirmed).map((frame) => frame.id)
    return say({ request, isAnswered: true, ids, role: node.role, epoch: node.epoch })
  }
  if (!node.takesFrames || !session.mayAnswer()) return say({ request, isAnswered: false })
  if (kind === 'hand over') {
    session.handOver(null)
    return say({ request, isAnswered: true })
  }
  if (kind === 'write') write(id)
  waiting.push({ version: log.length, request })
  tell()
}

function write(id: number): void {
  const before = endOf(log.length)
  const bytes = Buffer.alloc(frameBytes(8))
  bytes.writeDoubleLE(id, FRAME_HEADER_BYTES)
  const position = before.position === 0 ? 64 : before.position
  const chain = encodeFrameHeader(
    {
      position,
      durableBefore: 0,
      payloadBytes: 8,
      type: 1,
      flags: 0,
      epoch: session.node.epoch,
      previousHeaderCrc: before.chain,
      payloadCrc: crc32(bytes.subarray(FRAME_HEADER_BYTES)),
      logId: stream.logId,
      headerCrc: 0,
    },
    bytes,
    0,
  )
  log.push({ id, bytes, end: { position: position + bytes.byteLength, chain } })
  if (isDue) return
  isDue = true
  setImmediate(() => {
    isDue = false
    if (!session.node.takesFrames) return
    const group = log.slice(offered)
    const begin = endOf(offered)
    offered = log.length
    for (const message of messagesOf(group, begin, 512)) session.offer(message)
  })
}

function act(action: LogAction): void {
  switch (action.kind) {
    case 'apply': {
      const { epoch } = session.node
      const frames = framesOf(action.bodies, action, { logId: stream.logId, epoch })
      if (typeof frames === 'string') throw new Error(frames)
      for (const { bytes, end } of frames) {
        log.push({ id: Buffer.from(bytes).readDoubleLE(FRAME_HEADER_BYTES), bytes, end })
      }
      confirmed = log.length
      offered = log.length
      return
    }
    case 'confirmed':
      while (confirmed < log.length && log[confirmed]!.end.position <= action.end.position) confirmed += 1
      return
    case 'lead':
      return cutTo(action.end)
    case 'step down':
      cutTo(action.end)
      for (const { request } of waiting.splice(0)) say({ request, isAnswered: false })
      return
    default:
      throw new Error(`not expected here: ${JSON.stringify(action)}`)
  }
}

function tell(): void {
  while (waiting.length > 0 && waiting[0]!.version <= confirmed) {
    const { request, version } = waiting.shift()!
    say(
      session.mayAnswer()
        ? { request, isAnswered: true, version, epoch: session.node.epoch }
        : { request, isAnswered: false },
    )
  }
}

function cutTo(end: LogPlace): void {
  while (log.length > 0 && log.at(-1)!.end.position > end.position) log.pop()
  confirmed = log.length
  offered = log.length
}

function endOf(count: number): LogPlace {
  return count === 0 ? LOG_BEGIN : log[count - 1]!.end
}
