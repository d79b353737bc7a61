/**
 * Sizes of objects, as written on the command line:
 *
 *   4KiB              every object the same
 *   1KiB-64KiB        between the two, every doubling as likely as the others
 *   p50=4KiB,p99=1MiB half of them up to the first, one in a hundred above the second (log-normal), none above what the server takes
 */
import { UsageError } from '../options.ts'
import { mix32, Random } from '../random.ts'

/** The server's default cap of a single PUT, and of a part. */
const OBJECT_BYTES_MAX = 16 << 20
/** How many standard deviations above its middle a normal distribution has its 99th percentile. */
const P99_DEVIATIONS = 2.326

export interface Sizes {
  readonly bytesMax: number
  /** The same for the same number. */
  bytesOf(object: number): number
}

const UNITS: Readonly<Record<string, number>> = { '': 1, B: 1, KiB: 1 << 10, MiB: 1 << 20 }

/** @throws UsageError that names the option */
export function parseBytes(option: string, text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})(B|KiB|MiB)?$/.exec(text) ?? []
  const bytes = digits === '' ? NaN : Number(digits) * UNITS[unit]!
  if (bytes <= OBJECT_BYTES_MAX) return bytes
  throw new UsageError(`--${option} must be sizes such as 100B, 4KiB or 1MiB, up to 16MiB, not '${text}'`)
}

/** @throws UsageError that names the option */
export function parseSizes(option: string, text: string): Sizes {
  const percentiles = /^p50=(\w+),p99=(\w+)$/.exec(text)
  const [first = '', second] = percentiles?.slice(1) ?? text.split('-', 2)
  const low = parseBytes(option, first)
  if (second === undefined) return { bytesMax: low, bytesOf: () => low }
  const high = parseBytes(option, second)
  if (low === 0 || low > high) throw new UsageError(`--${option}: '${text}' must go from at least 1B upwards`)
  const spread = Math.log(high / low)
  if (percentiles === null) {
    return { bytesMax: high, bytesOf: (object) => Math.round(low * Math.exp(spread * uniform(randomOf(object)))) }
  }
  return {
    bytesMax: OBJECT_BYTES_MAX,
    bytesOf(object) {
      const bytes = low * Math.exp((spread / P99_DEVIATIONS) * normal(randomOf(object)))
      return Math.min(OBJECT_BYTES_MAX, Math.max(1, Math.round(bytes)))
    },
  }
}

const randomOf = (object: number): Random => new Random(mix32(object))

/** A number in [0, 1). */
const uniform = (random: Random): number => random.uint32() / 2 ** 32

/** Source: the Box-Muller transform. */
const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - uniform(random))) * Math.cos(2 * Math.PI * uniform(random))
