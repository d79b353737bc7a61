/** Objects that are there before a run, for it to read. Later runs with the same sizes find them again, so their keys and bytes know no seed. */
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import { LoadObjects } from './objects.ts'
import type { ObjectStoreLoad } from './service.ts'

export const PRELOADED_OBJECTS = 10_000
export const PRELOADED_KEYS = 100_000
const SEED = 0

export interface Preloaded {
  readonly objects: LoadObjects
  readonly count: number
}

/** @throws UsageError */
export function preloadedObjects(
  { sizes, sizesText }: ObjectStoreLoad,
  options: OptionValues,
  byDefault: number,
): Preloaded {
  const count = options.has('preload') ? options.integer('preload', 1, 1e8) : byDefault
  const prefix = `there-${sizesText.replaceAll(/[^\w-]/g, '_')}/`
  return { objects: new LoadObjects(prefix, sizes, SEED), count }
}

/** @throws UsageError */
export function refuseOption(options: OptionValues, name: string, workloads: string): void {
  if (options.has(name)) throw new UsageError(`--${name} is for ${workloads}`)
}
