/**
 * Metrics of one service in Prometheus' text format, in a registry of its own: services in one process never mix.
 *
 * Hot paths count in plain fields or in `SharedCounters`; the registry reads them when it is asked for, not before.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'

export interface MetricName {
  /** `<service>_<what>_<unit>`, counters end in `_total`. */
  readonly name: string
  readonly help: string
}

export type Labels = Readonly<Record<string, string>>

export class Metrics {
  readonly #registry = new Registry()

  /** Content type of `text`. */
  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    return this.#registry.metrics()
  }

  /** @param read the count since the start; never falls */
  counter({ name, help }: MetricName, read: () => number): void {
    this.#register(
      new Counter({
        name,
        help,
        registers: [],
        collect() {
          this.reset()
          this.inc(read())
        },
      }),
    )
  }

  /** @param read every label value seen so far with its count since the start */
  counterBy(
    { name, help }: MetricName,
    label: string,
    read: () => Iterable<readonly [value: string, count: number]>,
  ): void {
    this.#register(
      new Counter({
        name,
        help,
        labelNames: [label],
        registers: [],
        collect() {
          this.reset()
          for (const [value, count] of read()) this.inc({ [label]: value }, count)
        },
      }),
    )
  }

  gauge({ name, help }: MetricName, read: () => number): void {
    this.#register(
      new Gauge({
        name,
        help,
        registers: [],
        collect() {
          this.set(read())
        },
      }),
    )
  }

  /** @returns observes one value; @param buckets upper bounds, ascending, in the unit of the name */
  histogram({ name, help }: MetricName, buckets: readonly number[]): (value: number) => void {
    const histogram = new Histogram({ name, help, buckets: [...buckets], registers: [] })
    this.#register(histogram)
    return (value) => histogram.observe(value)
  }

  #register(metric: Counter | Gauge | Histogram): void {
    this.#registry.registerMetric(metric)
  }
}

/**
 * Counters that several threads feed and one reads: one Float64 each, written by exactly one thread, so no atomic operation is
 * needed and none can be lost. An aligned 8-byte store is whole on the processors this runs on.
 */
export class SharedCounters {
  readonly shared: SharedArrayBuffer
  readonly values: Float64Array

  static create(count: number): SharedCounters {
    return new SharedCounters(new SharedArrayBuffer(count * Float64Array.BYTES_PER_ELEMENT))
  }

  static attach(shared: SharedArrayBuffer): SharedCounters {
    return new SharedCounters(shared)
  }

  private constructor(shared: SharedArrayBuffer) {
    this.shared = shared
    this.values = new Float64Array(shared)
  }

  /** Only from the thread that owns this counter. */
  add(counter: number, amount: number): void {
    this.values[counter]! += amount
  }

  read(counter: number): number {
    return this.values[counter]!
  }
}
