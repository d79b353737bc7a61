/** One query in, one answer out. Keeps open bundles, verified blocks and batches between tasks, within the bounds below. */
import { lowerPriority, yieldCore } from '../src/pipeline/niceness.ts'
import { handOver, workerData } from '../src/pipeline/piscina.ts'
import type { HandedOver } from '../src/pipeline/piscina.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { RemoteFiles } from '../src/logstore/bucket/remote-files.ts'
import { PieceCache } from '../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../src/logstore/index/block-cache.ts'
import { LocalSegmentFiles } from '../src/logstore/index/segment-files.ts'
import { QueryEngine } from '../src/logstore/query/engine.ts'
import { FrameGrams, FrameNoter, ownFrameGrams } from '../src/logstore/query/frame-grams.ts'
import { FrameReader } from '../src/logstore/query/frame-reader.ts'
import { NoteEngine } from '../src/logstore/query/note-frames.ts'
import { OpenBundles } from '../src/logstore/query/open-bundles.ts'
import { RestingClock } from '../src/logstore/query/resting-clock.ts'
import { isNote, processNowMs } from '../src/logstore/query/task.ts'
import type { NoteQuestion, QueryAnswer, QueryTask, QueryWorkerData } from '../src/logstore/query/task.ts'
import { OtherSenders } from '../src/logstore/senders.ts'
import { SurveyEngine, isSurvey } from '../src/logstore/survey/engine.ts'
import type { SurveyTask } from '../src/logstore/survey/question.ts'

const MIB = 1024 * 1024
/**
 * Threads that read a bucket have less: there are more of them, and they share a cache behind these. Pieces of a local log: a search for a rare word asks
 * the filter of each block, 35 MB for 10 million records, and if the filters do not all fit, it finds none of them cached.
 */
const CACHES = {
  local: { blocks: 32 * MIB, batches: 24 * MIB, pieces: 48 * MIB },
  remote: { blocks: 16 * MIB, batches: 16 * MIB, pieces: 32 * MIB },
}

/** What a search reads passes through here: little enough to stay in the processor's caches. */
const SCAN_BYTES = 2 * MIB
/** Notes of frames of a bucket. */
const OWN_GRAMS_BYTES = 4 * MIB

lowerPriority()

const { segmentsDirectory, grams: shared, senders } = workerData as QueryWorkerData // the pool's owner gives it, see QueryWorkerData
const remote = segmentsDirectory === null ? new RemoteFiles(processNowMs) : null
const files = segmentsDirectory === null ? remote! : new LocalSegmentFiles(nodeFiles, segmentsDirectory)
const caches = remote === null ? CACHES.local : CACHES.remote
const bundles = new OpenBundles(files, new BlockCache(caches.blocks), new PieceCache(caches.pieces))
const frames = new FrameReader(bundles, caches.batches)
const scans = new FrameReader(bundles, SCAN_BYTES)
const grams = shared === null ? ownFrameGrams(OWN_GRAMS_BYTES) : new FrameGrams(shared, null)
const clock = new RestingClock(new OtherSenders(senders), processNowMs, yieldCore)
const parts = { bundles, frames, scans, grams, nowMs: () => clock.nowMs() }
const pages = new QueryEngine(parts)
const surveys = new SurveyEngine(parts)
const notes = shared === null ? null : new NoteEngine(parts, new FrameNoter(shared))

/** A `QueryAnswer`; the memory of its body is handed over without a copy. */
export default function run(task: QueryTask | SurveyTask | QueryTask<NoteQuestion>): QueryAnswer | HandedOver {
  clock.readFor(task.tenant)
  const answerNow = (): QueryAnswer =>
    isSurvey(task) ? surveys.run(task) : isNote(task) ? notes!.run(task) : pages.run(task)
  const answer = remote === null ? answerNow() : remote.during(task.remote!, task.deadlineAtMs, answerNow)
  if (answer.kind !== 'ok') return answer
  return handOver(answer, [answer.body.buffer])
}
