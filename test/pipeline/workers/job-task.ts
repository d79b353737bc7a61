/** A job for the tests: it ends in the way that its task says. */
import { threadId } from 'node:worker_threads'
import { StoreError } from '../../../src/errors.ts'

export interface TestJob {
  readonly how: 'return' | 'throw' | 'exit' | 'spin' | 'wait' | 'tell thread'
  /** 'wait' sleeps until word 0 is not 0; word 1 counts the tasks that began. */
  readonly gate?: Int32Array
}

export default function job({ how, gate }: TestJob): string {
  if (gate) {
    Atomics.add(gate, 1, 1)
    Atomics.notify(gate, 1)
  }
  if (how === 'throw') throw new StoreError('corrupt', 'told_to', 'told to throw')
  if (how === 'exit') process.exit(9)
  if (how === 'spin') for (;;);
  if (how === 'wait') Atomics.wait(gate!, 0, 0)
  if (how === 'tell thread') return String(threadId)
  return 'done'
}
