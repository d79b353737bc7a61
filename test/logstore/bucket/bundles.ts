/** Bundles to put into a bucket. */
import { TRACES } from '../../support/stored-segments.ts'
import type { TestStore } from '../../support/stored-segments.ts'

/** Adds sealed bundles with records of two datasets. */
export function fillBundles(store: TestStore, bundles: number, batches = 3): void {
  for (let bundle = 0; bundle < bundles; bundle++) {
    for (let batch = 0; batch < batches; batch++) {
      const number = bundle * batches + batch
      store.add('local', [
        { dataset: 'orders', time: BigInt(1000 + number), trace: TRACES[number % 3]!, text: `order ${number}` },
        { dataset: 'payments', time: BigInt(5000 - number), trace: null, text: `payment ${number}` },
      ])
    }
    store.seal()
  }
  store.publish()
}
