/** The workloads get and head. */
import type { OptionValues } from '../options.ts'
import { mix32, Random } from '../random.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { PRELOADED_OBJECTS, preloadedObjects, refuseOption } from './preloaded.ts'
import { createBucket, preload } from './preparation.ts'
import { ReadSource } from './read-source.ts'
import type { ObjectStoreLoad } from './service.ts'

export function planRead(load: ObjectStoreLoad, method: 'get' | 'head', options: OptionValues): Workload {
  const { requests, sizesText, seed } = load
  refuseOption(options, 'acked-file', 'put, mixed and multipart')
  const readable = preloadedObjects(load, options, PRELOADED_OBJECTS)

  return {
    target: requests.target,
    unit: 'objects',
    task: 'requests',
    unitsPerTask: 1,
    configuration: [
      ...load.configuration,
      ['object size', sizesText],
      ['there beforehand', `${readable.count} objects`],
    ],
    async prepare(say) {
      await createBucket(requests)
      await preload(requests, readable, say)
    },
    openSource: (connection) => new ReadSource(requests, readable, new Random(seed ^ mix32(connection)), method),
    refusalKind,
    verify: null,
    close: () => {},
  }
}
