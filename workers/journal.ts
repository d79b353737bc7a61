/**
 * The journal lane of one log directory: runs `Journal` on a thread of its own until stopped. Owns its directory's writes.
 *
 * L1  the lane does not sleep between frames of a client that sends the next one as soon as it has its answer: waking it would take a third of
 *     the time. It spins for `SPIN_MS` at most, and only after a small group that came within that time. After a large one, other threads need the
 *     core. An idle log never spins, nor does one with a frame every millisecond
 */
import { availableParallelism } from 'node:os'
import { performance } from 'node:perf_hooks'
import { receiveMessageOnPort } from 'node:worker_threads'
import type { JournalRequest, JournalTask } from '../src/log/environment.ts'
import { journalOf } from '../src/log/journal.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { isStop } from '../src/pipeline/lane-task.ts'
import type { LaneTask } from '../src/pipeline/lane-task.ts'

/** The durable mark is written when no frame has come for this long. */
const SETTLED_MS = 20
/** How often free space is looked at while nothing is written. */
const IDLE_MS = 250
/** L1. What an answer and the next request take, on a machine that does little else. */
const SPIN_MS = 0.3
const GROUP_FRAMES_MAX = 2

export default function run({ port, data }: LaneTask<JournalTask>): void {
  const nowMs = (): number => performance.now()
  let isAwaited = false
  const { journal, ring } = journalOf(data, {
    files: nodeFiles,
    nowMs,
    notify: (message) => port.postMessage(message),
  })
  const maySpin = availableParallelism() > 1 && journal.isOnly
  for (let stopping = false; ;) {
    for (let sent = receiveMessageOnPort(port); sent; sent = receiveMessageOnPort(port)) {
      if (isStop(sent.message)) stopping = true
      else journal.drop(sent.message as JournalRequest) // the only other message main sends
    }
    const isDropping = journal.dropStep()
    if (journal.runGroup() || isDropping) continue
    if (stopping) break
    const mayFollowSoon = maySpin && journal.groupFrames <= GROUP_FRAMES_MAX
    const sinceMs = nowMs()
    if (isAwaited && mayFollowSoon && ring.spinForMessage(SPIN_MS, nowMs)) continue
    if (!ring.waitForMessage(journal.hasUnwrittenMark ? SETTLED_MS : IDLE_MS)) journal.idle()
    isAwaited = mayFollowSoon && nowMs() - sinceMs < SPIN_MS
  }
  journal.close()
  port.close()
}
