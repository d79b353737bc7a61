/** A sealed segment of the object store in, what stands in it out. */
import { nodeFiles } from '../src/log/node-files.ts'
import { scanSegment } from '../src/objectstore/engine/scan-segment.ts'
import type { ScanTask, ScannedSegment } from '../src/objectstore/engine/scan-segment.ts'

export default function run(task: ScanTask): ScannedSegment {
  return scanSegment(nodeFiles, task)
}
