/**
 * The lane of a cluster: opens the stream of one service, then runs `ClusterLane` until it is stopped. The only thread that loads NATS.
 *
 * A server that cannot be used is tried again, whatever the reason; only a setting that cannot work ends the lane.
 */
import { randomInt } from 'node:crypto'
import { StoreError, messageOf } from '../src/errors.ts'
import { ClusterLane } from '../src/cluster/lane/cluster-lane.ts'
import { OtherNodes } from '../src/cluster/lane/other-nodes.ts'
import type { FromLane, LaneTaskData, ToLane } from '../src/cluster/lane/protocol.ts'
import { writerOf } from '../src/cluster/message.ts'
import { connectionOptionsOf } from '../src/cluster/nats/connection.ts'
import { NatsStream } from '../src/cluster/nats/nats-stream.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { isStop } from '../src/pipeline/lane-task.ts'
import type { LaneTask } from '../src/pipeline/lane-task.ts'

const AGAIN_MS = 500
/** How often the lane reports the other nodes to main before it joins. */
const NODES_MS = 500
const CONNECT_MS = 2000
const RECONNECT_MS = 200
const RANDOM_MAX = 2 ** 47

/** Monotonic, and the same in all threads. */
const sharedMs = (): number => Number(process.hrtime.bigint()) / 1e6

function after(delayMs: number, run: () => void): () => void {
  const timer = setTimeout(run, delayMs)
  return () => clearTimeout(timer)
}

export default async function run({ port, data }: LaneTask<LaneTaskData>): Promise<void> {
  const tell = (message: FromLane, transfer?: ArrayBuffer): void =>
    port.postMessage(message, transfer === undefined ? [] : [transfer])
  const stopped = Promise.withResolvers<'stopped'>()
  const joined = Promise.withResolvers<Extract<ToLane, { readonly kind: 'join' }>>()
  let lane: ClusterLane | null = null
  port.on('message', (message: unknown) => {
    if (isStop(message)) {
      stopped.resolve('stopped')
      return lane?.close()
    }
    const toLane = message as ToLane // from main, see src/cluster/member
    if (toLane.kind === 'authorities') {
      if (data.settings.natsTls !== null) data.settings.natsTls.ca = toLane.ca
    } else if (toLane.kind === 'join') joined.resolve(toLane)
    else lane?.receive(toLane)
  })
  const stream = await openStream(data, tell, stopped.promise)
  if (stream !== null) {
    const writer = writerOf(data.node, randomInt(RANDOM_MAX).toString(36))
    const nodes = new OtherNodes({ writer, nowMs: sharedMs })
    stream.receiveFromNodes((text) => nodes.receive(text))
    tell({ kind: 'stream', logId: stream.logId, begin: stream.begin, first: stream.first })
    const timer = setInterval(() => tell({ kind: 'nodes', own: null, ...nodes.all }), NODES_MS)
    const join = await Promise.race([joined.promise, stopped.promise])
    clearInterval(timer)
    if (join !== 'stopped') {
      lane = new ClusterLane(
        {
          stream,
          data,
          nodes,
          files: nodeFiles,
          clock: { nowMs: sharedMs, after },
          random: () => randomInt(RANDOM_MAX) / RANDOM_MAX,
          tell,
        },
        join,
      )
      await lane.run()
    }
    await stream.close()
  }
  await stopped.promise
  port.close()
}

/** Null: the lane was stopped, or a setting is wrong. */
async function openStream(
  { settings, log }: LaneTaskData,
  tell: (message: FromLane) => void,
  stopped: Promise<'stopped'>,
): Promise<NatsStream | null> {
  for (;;) {
    try {
      return await NatsStream.open({
        connection: { ...connectionOptionsOf(settings), timeout: CONNECT_MS, reconnectTimeWait: RECONNECT_MS },
        cluster: settings.cluster,
        service: settings.service,
        replicas: settings.replicas,
        keepBytes: settings.keepBytes,
        keepMs: settings.keepMs,
        log,
        randomUint32: () => randomInt(2 ** 32),
        nowMs: sharedMs,
        after,
      })
    } catch (error) {
      if (error instanceof StoreError && error.kind === 'invalid') {
        tell({ kind: 'refused', code: error.code, message: error.message })
        return null
      }
      tell({ kind: 'away', reason: messageOf(error) })
    }
    const pause = new Promise<'again'>((resolve) => void after(AGAIN_MS, () => resolve('again')))
    if ((await Promise.race([stopped, pause])) === 'stopped') return null
  }
}
