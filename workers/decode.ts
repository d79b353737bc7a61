/** The decode lane of the log store: ingest requests from one ring, frames into the log's, outcomes into the third. */
import type { LaneTask } from '../src/pipeline/lane-task.ts'
import { runDecodeLane } from '../src/logstore/ingest/decode-loop.ts'
import type { DecodeLaneData } from '../src/logstore/ingest/lane-data.ts'

export default function run({ port, data }: LaneTask<DecodeLaneData>): void {
  runDecodeLane(port, data)
}
