/** The workload mixed. */
import type { OptionValues } from '../options.ts'
import { mix32, Random } from '../random.ts'
import { orUnverified } from '../verification.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { openLedger } from './ledger.ts'
import { DeleteSource, MixedSource } from './mixed-source.ts'
import { LoadObjects, ObjectNumbers } from './objects.ts'
import { PRELOADED_OBJECTS, preloadedObjects } from './preloaded.ts'
import { createBucket, preload } from './preparation.ts'
import { PutSource } from './put-source.ts'
import { ReadSource } from './read-source.ts'
import type { ObjectStoreLoad } from './service.ts'
import { verifyObjects } from './verify.ts'

export function planMixed(load: ObjectStoreLoad, options: OptionValues): Workload {
  const { requests, sizes, sizesText, keyPrefix, seed } = load
  const readable = preloadedObjects(load, options, PRELOADED_OBJECTS)
  const objects = new LoadObjects(keyPrefix, sizes, seed)
  const ledger = openLedger(objects, options)
  const numbers = new ObjectNumbers()

  return {
    target: requests.target,
    unit: 'operations',
    task: 'requests',
    unitsPerTask: 1,
    configuration: [
      ...load.configuration,
      ['object size', sizesText],
      ['there beforehand', `${readable.count} objects`],
      ['mix', '45 % get, 30 % head, 15 % put, 10 % delete'],
    ],
    async prepare(say) {
      await createBucket(requests)
      await preload(requests, readable, say)
    },
    openSource(connection) {
      const random = new Random(seed ^ mix32(connection))
      return new MixedSource(random, {
        gets: new ReadSource(requests, readable, random, 'get'),
        heads: new ReadSource(requests, readable, random, 'head'),
        puts: new PutSource(requests, objects, ledger, numbers),
        deletes: new DeleteSource(requests, objects, ledger),
      })
    },
    refusalKind,
    verify: () => orUnverified(() => verifyObjects(requests, objects, numbers.taken, ledger)),
    close: () => ledger.close(),
  }
}
