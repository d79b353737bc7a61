/** One sealed segment in, its sidecar published beside it. Keeps only scratch memory between tasks. Gives way to ingest, but keeps up with it. */
import { giveBackFreed } from '../src/libc.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { IndexBuilder } from '../src/logstore/index/builder.ts'
import { indexSegment } from '../src/logstore/index/publish.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from '../src/logstore/index/publish.ts'
import { giveWay } from '../src/pipeline/niceness.ts'

giveWay('some')

const builder = new IndexBuilder()

export default function run(task: IndexSegmentTask): IndexedSegmentFacts {
  try {
    return indexSegment(nodeFiles, builder, task)
  } finally {
    builder.discard()
    giveBackFreed()
  }
}
