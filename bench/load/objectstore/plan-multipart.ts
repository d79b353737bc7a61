/** The workload multipart. */
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import { orUnverified } from '../verification.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { openLedger } from './ledger.ts'
import { MultipartSource } from './multipart-source.ts'
import { ObjectNumbers, PartedObjects } from './objects.ts'
import { refuseOption } from './preloaded.ts'
import { createBucket } from './preparation.ts'
import type { ObjectStoreLoad } from './service.ts'
import { parseBytes } from './sizes.ts'
import { verifyObjects } from './verify.ts'

const PARTS_MAX = 10_000
/** S3's least size of every part but the last; here all have the same size. */
const PART_BYTES_MIN = 5 << 20

export function planMultipart(load: ObjectStoreLoad, options: OptionValues): Workload {
  const { requests, keyPrefix, seed } = load
  refuseOption(options, 'preload', 'get, head, mixed and list')
  const parts = options.integer('parts', 1, PARTS_MAX)
  const partBytes = parseBytes('part-size', options.text('part-size'))
  if (parts > 1 && partBytes < PART_BYTES_MIN) throw new UsageError('--part-size must be 5MiB at least')
  const objects = new PartedObjects(keyPrefix, parts, partBytes, seed)
  const ledger = openLedger(objects, options)
  const numbers = new ObjectNumbers()

  return {
    target: requests.target,
    unit: 'objects',
    task: 'uploads',
    unitsPerTask: 1,
    configuration: [...load.configuration, ['parts', `${parts} of ${options.text('part-size')}`]],
    prepare: () => createBucket(requests),
    openSource: () => new MultipartSource(requests, objects, ledger, numbers),
    refusalKind,
    verify: () => orUnverified(() => verifyObjects(requests, objects, numbers.taken, ledger)),
    close: () => ledger.close(),
  }
}
