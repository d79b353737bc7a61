/** The workload put. */
import type { OptionValues } from '../options.ts'
import { orUnverified } from '../verification.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { openLedger } from './ledger.ts'
import { LoadObjects, ObjectNumbers } from './objects.ts'
import { refuseOption } from './preloaded.ts'
import { createBucket } from './preparation.ts'
import { PutSource } from './put-source.ts'
import type { ObjectStoreLoad } from './service.ts'
import { verifyObjects } from './verify.ts'

export function planPut(load: ObjectStoreLoad, options: OptionValues): Workload {
  const { requests, sizes, sizesText, keyPrefix, seed } = load
  refuseOption(options, 'preload', 'get, head, mixed and list')
  const objects = new LoadObjects(keyPrefix, sizes, seed)
  const ledger = openLedger(objects, options)
  const numbers = new ObjectNumbers()

  return {
    target: requests.target,
    unit: 'objects',
    task: 'requests',
    unitsPerTask: 1,
    configuration: [...load.configuration, ['object size', sizesText]],
    prepare: () => createBucket(requests),
    openSource: () => new PutSource(requests, objects, ledger, numbers),
    refusalKind,
    verify: () => orUnverified(() => verifyObjects(requests, objects, numbers.taken, ledger)),
    close: () => ledger.close(),
  }
}
