/**
 * A lane as its own thread sees it: the task gets `{ port, data }`, polls `port` with receiveMessageOnPort when its ring wakes it,
 * and returns on a message for which `isStop` holds. It is apart from `lane.ts`, so that the thread does not load the code that starts threads.
 */
import type { MessagePort } from 'node:worker_threads'

/** What the task of a lane is called with. */
export interface LaneTask<Data> {
  readonly port: MessagePort
  readonly data: Data
}

export const STOP = { kind: 'stop' } as const

export function isStop(message: unknown): boolean {
  return typeof message === 'object' && message !== null && 'kind' in message && message.kind === STOP.kind
}
