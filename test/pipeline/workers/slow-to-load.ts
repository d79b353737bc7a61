/** A worker that stops loading until word 1 is set. Word 0: 1 while it waits, 2 when it is loaded. */
import { workerData } from 'piscina'

const words = new Int32Array(workerData as SharedArrayBuffer) // the test passes one
Atomics.store(words, 0, 1)
Atomics.notify(words, 0)
Atomics.wait(words, 1, 0)
Atomics.store(words, 0, 2)

export default function run(): void {}
