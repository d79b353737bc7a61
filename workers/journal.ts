/** The journal lane of one log directory: runs `Journal` on a thread of its own until stopped. Owns its directory's writes. */
import { performance } from 'node:perf_hooks'
import { receiveMessageOnPort } from 'node:worker_threads'
import type { JournalRequest, JournalTask } from '../src/log/environment.ts'
import { journalOf } from '../src/log/journal.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { isStop } from '../src/pipeline/lane-task.ts'
import type { LaneTask } from '../src/pipeline/lane-task.ts'

/** How long nothing has to wait before the durable mark is written. */
const SETTLED_MS = 20
/** How often free space is looked at while nothing is written. */
const IDLE_MS = 250

export default function run({ port, data }: LaneTask<JournalTask>): void {
  const { journal, ring } = journalOf(data, {
    files: nodeFiles,
    nowMs: () => performance.now(),
    notify: (message) => port.postMessage(message),
  })
  for (let stopping = false; ;) {
    for (let sent = receiveMessageOnPort(port); sent; sent = receiveMessageOnPort(port)) {
      if (isStop(sent.message)) stopping = true
      else journal.drop(sent.message as JournalRequest) // the only other message main sends
    }
    if (journal.runGroup()) continue
    if (stopping) break
    if (!ring.waitForMessage(journal.restless ? SETTLED_MS : IDLE_MS)) journal.idle()
  }
  journal.close()
  port.close()
}
