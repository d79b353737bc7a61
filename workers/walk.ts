/** One step of a walk in, its text out. Keeps open bundles, verified blocks and batches between tasks, within the bounds below. */
import { lowerPriority, yieldCore } from '../src/pipeline/niceness.ts'
import { handOver, workerData } from '../src/pipeline/piscina.ts'
import type { HandedOver } from '../src/pipeline/piscina.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { RemoteFiles } from '../src/logstore/bucket/remote-files.ts'
import { PieceCache } from '../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../src/logstore/index/block-cache.ts'
import { LocalSegmentFiles } from '../src/logstore/index/segment-files.ts'
import { FrameReader } from '../src/logstore/query/frame-reader.ts'
import { OpenBundles } from '../src/logstore/query/open-bundles.ts'
import { RestingClock } from '../src/logstore/query/resting-clock.ts'
import { SegmentReader } from '../src/logstore/query/segment-reader.ts'
import { processNowMs } from '../src/logstore/query/task.ts'
import type { QueryWorkerData } from '../src/logstore/query/task.ts'
import { OtherSenders } from '../src/logstore/senders.ts'
import type { WalkAnswer, WalkTask } from '../src/logstore/walk/tasks.ts'
import { WALK_BOUNDS } from '../src/logstore/walk/time-walk.ts'
import { Walker } from '../src/logstore/walk/walker.ts'

const MIB = 1024 * 1024
/** Room for the frames of one run of candidates, which lie far from each other where many senders' times overlap. */
const FRAMES_BYTES = 64 * MIB
const BLOCKS_BYTES = 16 * MIB
const PIECES_BYTES = 64 * MIB

lowerPriority()

const { segmentsDirectory, senders } = workerData as QueryWorkerData // the pool's owner gives it, see QueryWorkerData
const remote = segmentsDirectory === null ? new RemoteFiles(processNowMs) : null
const files = segmentsDirectory === null ? remote! : new LocalSegmentFiles(nodeFiles, segmentsDirectory)
const bundles = new OpenBundles(files, new BlockCache(BLOCKS_BYTES), new PieceCache(PIECES_BYTES))
const frames = new FrameReader(bundles, FRAMES_BYTES)
const reader = new SegmentReader({ bundles, frames, scans: frames, grams: null })
const clock = new RestingClock(new OtherSenders(senders), processNowMs, yieldCore)
const walker = new Walker({ reader, frames, bounds: WALK_BOUNDS, nowMs: () => clock.nowMs() })

/** A `WalkAnswer`; the memory of its text is handed over without a copy. */
export default function run(task: WalkTask): WalkAnswer | HandedOver {
  clock.readFor(task.tenant)
  const answer =
    remote === null ? walker.run(task) : remote.during(task.remote!, task.deadlineAtMs, () => walker.run(task))
  if (answer.kind !== 'ok' || answer.body.text.byteLength === 0) return answer
  return handOver(answer, [answer.body.text.buffer])
}
