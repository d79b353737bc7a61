/** Loads until it is let: word 0 counts how far it is, word 1 lets it. */
import { workerData } from 'piscina'

const words = new Int32Array(workerData as SharedArrayBuffer) // the test gives it
Atomics.store(words, 0, 1)
Atomics.notify(words, 0)
Atomics.wait(words, 1, 0)
Atomics.store(words, 0, 2)

export default function run(): void {}
