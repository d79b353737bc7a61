/** One sealed segment in, its sidecar published beside it. Keeps only scratch memory between tasks. */
import { nodeFiles } from '../src/log/node-files.ts'
import { IndexBuilder } from '../src/logstore/bundle/builder.ts'
import { indexSegment } from '../src/logstore/bundle/publish.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from '../src/logstore/bundle/publish.ts'

const builder = new IndexBuilder()

export default function run(task: IndexSegmentTask): IndexedSegmentFacts {
  return indexSegment(nodeFiles, builder, task)
}
