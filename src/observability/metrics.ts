/**
 * Metrics of one service, in a registry of its own: services in one process never mix.
 *
 * Hot paths count in plain fields or in histograms (pipeline/histogram.ts); the registry reads them when it is asked for, not before.
 *
 * M1  a metric is given by its OpenTelemetry name, as `mq.publish.records`. Scrapers get it with underscores, and `_total` behind a counter
 * M2  each name is registered once
 */
import assert from 'node:assert/strict'
import { EXPOSITION_TYPE, METRIC_NAME, headOf, histogramText, labelText, sampleOf } from './exposition.ts'
import type { HistogramView, Labels, MetricType } from './exposition.ts'

export type { Labels } from './exposition.ts'

export interface MetricName {
  /** M1 */
  readonly name: string
  readonly help: string
}

/** The label names are the same in every series; the values differ. */
export type Series<T> = Iterable<readonly [labels: Labels, value: T]>

/** Labels of the one series for everything that has no series of its own. `summed` tells it from a thing that is called `other`. */
export const restOf = (...labels: readonly string[]): Labels => ({
  ...Object.fromEntries(labels.map((label) => [label, 'other'])),
  summed: 'true',
})

/** @typeParam Scope  what a scrape may see; void: everything */
export class Metrics<Scope = void> {
  readonly #families: ((scope: Scope) => string)[] = []
  readonly #names = new Set<string>()

  readonly #showsAliases: boolean

  /** Content type of `text`. */
  readonly contentType = EXPOSITION_TYPE

  constructor({
    showsAliases = false,
  }: { /** OpenTelemetry names stand in comments. */ readonly showsAliases?: boolean } = {}) {
    this.#showsAliases = showsAliases
  }

  text(scope: Scope): string {
    return this.#families.map((family) => family(scope)).join('')
  }

  /** @param read the count since the start; never falls */
  counter(name: MetricName, read: () => number): void {
    this.#one(name, 'counter', read)
  }

  gauge(name: MetricName, read: () => number): void {
    this.#one(name, 'gauge', read)
  }

  /** @param read every label value seen so far with its count since the start */
  counterBy(name: MetricName, label: string, read: () => Iterable<readonly [value: string, count: number]>): void {
    this.counters(name, () => Array.from(read(), ([value, count]) => [{ [label]: value }, count]))
  }

  counters(name: MetricName, read: (scope: Scope) => Series<number>): void {
    this.#add(name, 'counter', read, sampleOf)
  }

  gauges(name: MetricName, read: (scope: Scope) => Series<number>): void {
    this.#add(name, 'gauge', read, sampleOf)
  }

  histogram(name: MetricName, histogram: HistogramView): void {
    this.histograms(name, () => [[{}, histogram]])
  }

  histograms(name: MetricName, read: (scope: Scope) => Series<HistogramView>): void {
    this.#add(name, 'histogram', read, histogramText)
  }

  #one(name: MetricName, type: MetricType, read: () => number): void {
    this.#add(name, type, () => [[{}, read()]], sampleOf)
  }

  /** M1, M2 */
  #add<T>(
    { name, help }: MetricName,
    type: MetricType,
    read: (scope: Scope) => Series<T>,
    textOf: (name: string, labels: string, value: T) => string,
  ): void {
    const safe = safeName(name, type)
    assert(METRIC_NAME.test(safe), `${safe} is no name of a metric`)
    assert(!this.#names.has(safe), `two metrics ${safe}`)
    this.#names.add(safe)
    const head = headOf(safe, help, type, this.#showsAliases ? name : null)
    this.#families.push((scope) => {
      let text = head
      for (const [labels, value] of read(scope)) text += textOf(safe, labelText(labels), value)
      return text
    })
  }
}

/** M1 */
function safeName(name: string, type: MetricType): string {
  const safe = name.replaceAll('.', '_')
  return type === 'counter' ? `${safe}_total` : safe
}
