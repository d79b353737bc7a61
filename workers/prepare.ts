/** A further decode lane of the log store: describes batches before the sequencer takes them. */
import type { LaneTask } from '../src/pipeline/lane-task.ts'
import type { PrepareLaneData } from '../src/logstore/ingest/lane-data.ts'
import { runPrepareLane } from '../src/logstore/ingest/prepare-loop.ts'

export default function run({ port, data }: LaneTask<PrepareLaneData>): void {
  runPrepareLane(port, data)
}
