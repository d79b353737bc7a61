/** One query in, one answer out. Keeps open bundles, verified blocks and batches between tasks, within the bounds below. */
import { move, transferableSymbol, valueSymbol, workerData } from 'piscina'
import { nodeFiles } from '../src/log/node-files.ts'
import { BlockCache } from '../src/logstore/index/block-cache.ts'
import { QueryEngine } from '../src/logstore/query/engine.ts'
import { FrameReader } from '../src/logstore/query/frame-reader.ts'
import { OpenBundles } from '../src/logstore/query/open-bundles.ts'
import { processNowMs } from '../src/logstore/query/task.ts'
import type { QueryAnswer, QueryTask, QueryWorkerData } from '../src/logstore/query/task.ts'

const BLOCK_CACHE_BYTES = 64 * 1024 * 1024
const BATCH_CACHE_BYTES = 64 * 1024 * 1024
/** What a search reads passes through here: little enough to stay in the processor's caches. */
const SCAN_BYTES = 2 * 1024 * 1024

const { segmentsDirectory } = workerData as QueryWorkerData // the pool's owner gives it, see QueryWorkerData
const bundles = new OpenBundles(nodeFiles, segmentsDirectory, new BlockCache(BLOCK_CACHE_BYTES))
const frames = new FrameReader(bundles, BATCH_CACHE_BYTES)
const scans = new FrameReader(bundles, SCAN_BYTES)
const engine = new QueryEngine({ bundles, frames, scans, nowMs: processNowMs })

/** A `QueryAnswer`; the memory of its body is handed over without a copy. */
export default function run(task: QueryTask): QueryAnswer | ReturnType<typeof move> {
  const answer = engine.run(task)
  if (answer.kind !== 'ok') return answer
  return move({ [transferableSymbol]: [answer.body.buffer], [valueSymbol]: answer })
}
