import { broker } from './broker/service.ts'
import { logstore } from './logstore/service.ts'
import { objectstore } from './objectstore/service.ts'
import type { LoadService } from './workload.ts'

/** Every service the load tool knows, in the order of `load --help`. */
export const services: readonly LoadService[] = [logstore, objectstore, broker]
