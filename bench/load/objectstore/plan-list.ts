/** The workload list. */
import type { OptionValues } from '../options.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { ListSource } from './list-source.ts'
import { PRELOADED_KEYS, preloadedObjects, refuseOption } from './preloaded.ts'
import { createBucket, preload } from './preparation.ts'
import type { ObjectStoreLoad } from './service.ts'

const PAGE_MAX = 1000

export function planList(load: ObjectStoreLoad, options: OptionValues): Workload {
  const { requests } = load
  refuseOption(options, 'acked-file', 'put, mixed and multipart')
  const page = options.integer('page', 1, PAGE_MAX)
  const listed = preloadedObjects(load, options, PRELOADED_KEYS)

  return {
    target: requests.target,
    unit: 'keys',
    task: 'requests',
    unitsPerTask: page,
    configuration: [...load.configuration, ['page', `${page} keys`], ['there beforehand', `${listed.count} objects`]],
    async prepare(say) {
      await createBucket(requests)
      await preload(requests, listed, say)
    },
    openSource: () => new ListSource(requests, listed.objects.prefix, page),
    refusalKind,
    verify: null,
    close: () => {},
  }
}
