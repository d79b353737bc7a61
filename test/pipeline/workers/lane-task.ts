/** A lane for the tests: it echoes the messages of its port, and ends in the way it is told to. */
import { receiveMessageOnPort } from 'node:worker_threads'
import { isStop } from '../../../src/pipeline/lane-task.ts'
import type { LaneTask } from '../../../src/pipeline/lane-task.ts'
import { SpscRing } from '../../../src/pipeline/spsc-ring.ts'

export interface TestLaneData {
  readonly ring: SharedArrayBuffer
}

export default function lane({ port, data }: LaneTask<TestLaneData>): void {
  const ring = SpscRing.attach(data.ring)
  port.postMessage('started')
  for (;;) {
    ring.waitForMessage()
    for (let received = receiveMessageOnPort(port); received; received = receiveMessageOnPort(port)) {
      const message: unknown = received.message
      if (isStop(message) || message === 'return') {
        port.postMessage('last words')
        return
      }
      if (message === 'throw') throw new Error('told to throw')
      if (message === 'exit') process.exit(7)
      if (message === 'spin') for (;;);
      port.postMessage({ echo: message })
    }
  }
}
