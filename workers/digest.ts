/** A digest lane of the object store: bytes of bodies in the arena, their digests out. */
import type { LaneTask } from '../src/pipeline/lane-task.ts'
import type { DigestLaneData } from '../src/objectstore/bodies/digest-messages.ts'
import { runDigestLane } from '../src/objectstore/bodies/digest-loop.ts'

export default function run({ port, data }: LaneTask<DigestLaneData>): Promise<void> {
  return runDigestLane(port, data)
}
