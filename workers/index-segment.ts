/** One sealed segment in, its sidecar published beside it. Keeps only scratch memory between tasks. Gives way to ingest, but keeps up with it. */
import { trimMalloc } from '../src/libc.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { IndexBuilder } from '../src/logstore/index/builder.ts'
import { indexSegment } from '../src/logstore/index/publish.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from '../src/logstore/index/publish.ts'
import { lowerPriority } from '../src/pipeline/niceness.ts'

lowerPriority('some')

const builder = new IndexBuilder()

export default function run(task: IndexSegmentTask): IndexedSegmentFacts {
  try {
    return indexSegment(nodeFiles, builder, task)
  } finally {
    builder.discard()
    trimMalloc()
  }
}
