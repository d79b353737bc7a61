/**
 * Prometheus' text format, read strictly: what a scraper forgives fails here.
 *
 *   a family is its comments (OTEL where there is one, HELP, TYPE), then all its samples; no name comes twice
 *   a series comes once, its labels are written as they must be
 *   a histogram's buckets ascend and end with +Inf, which its count equals; it has a sum
 *   counters end in _total, others do not, and are never negative
 *   units are written out, as `promtool check metrics` wants them
 */
import assert from 'node:assert/strict'

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly alias: string | null
  readonly samples: readonly Sample[]
}

const HEAD =
  /^(?:# OTEL ([a-z][a-z0-9_]*) ([a-z][a-z0-9_.]*)\n)?# HELP ([a-z][a-z0-9_]*) ((?:[^\\\n]|\\\\|\\n)+)\n# TYPE ([a-z][a-z0-9_]*) (counter|gauge|histogram)\n/
const SAMPLE = /^([a-z][a-z0-9_]*)(?:\{((?:[a-z][a-z0-9_]*="(?:[^"\\\n]|\\\\|\\n|\\")*",?)+)\})? (\S+)\n/
const LABEL = /([a-z][a-z0-9_]*)="((?:[^"\\\n]|\\\\|\\n|\\")*)"(,?)/g
const ABBREVIATED = /_(?:s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d)(?:_|$)/
const NUMBER = /^(?:-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]Inf|NaN)$/
const ESCAPED: Readonly<Record<string, string>> = { '\\\\': '\\', '\\n': '\n', '\\"': '"' }

export class Exposition {
  readonly families = new Map<string, Family>()

  constructor(text: string) {
    let rest = text
    while (rest !== '') {
      const head = HEAD.exec(rest)
      assert(head, `a family begins with its comments: ${firstLineOf(rest)}`)
      const [whole, aliased, alias = null, name = '', help = '', typed, type = ''] = head
      assert(typed === name && (aliased ?? name) === name, `the comments are of one family: ${whole}`)
      assert(!this.families.has(name), `two families ${name}`)
      assert.equal(name.endsWith('_total'), type === 'counter', name)
      assert.doesNotMatch(name, ABBREVIATED, name)
      rest = rest.slice(whole.length)
      const samples: Sample[] = []
      for (let found = SAMPLE.exec(rest); found; found = SAMPLE.exec(rest)) {
        samples.push(sampleOf(found))
        rest = rest.slice(found[0].length)
      }
      const family = { name, type, help, alias, samples }
      checkSamples(family)
      this.families.set(name, family)
    }
  }

  /** Value of the sample with exactly these labels; undefined: there is no such series. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number | undefined {
    const family = this.families.get(name) ?? this.families.get(name.replace(/_(bucket|sum|count)$/, ''))
    return family?.samples.find((sample) => sample.name === name && keyOf(sample.labels) === keyOf(labels))?.value
  }

  /** The labels of each series of a family. */
  labelsOf(name: string): Readonly<Record<string, string>>[] {
    return this.families.get(name)?.samples.map(({ labels }) => labels) ?? []
  }
}

function sampleOf([line, name = '', labelText = '', number = '']: RegExpExecArray): Sample {
  assert.match(number, NUMBER, line)
  const labels: Record<string, string> = {}
  let readTo = 0
  for (const { 0: whole, 1: label = '', 2: value = '', 3: comma, index } of labelText.matchAll(LABEL)) {
    assert(index === readTo && !(label in labels), line)
    readTo += whole.length
    assert.equal(comma === '', readTo === labelText.length, line)
    labels[label] = value.replaceAll(/\\[\\n"]/g, (escape) => ESCAPED[escape]!)
  }
  assert.equal(readTo, labelText.length, line)
  return { name, labels, value: number.endsWith('Inf') ? Number(number.replace('Inf', 'Infinity')) : Number(number) }
}

function checkSamples({ name, type, samples }: Family): void {
  const series = new Set<string>()
  for (const sample of samples) {
    const key = `${sample.name} ${keyOf(sample.labels)}`
    assert(!series.has(key), `two samples ${key}`)
    series.add(key)
    if (type !== 'histogram') assert.equal(sample.name, name)
    if (type !== 'gauge') assert(sample.value >= 0, key)
  }
  if (type === 'histogram') checkHistogram(name, samples)
}

function checkHistogram(name: string, samples: readonly Sample[]): void {
  for (let at = 0; at < samples.length;) {
    let bound = -Infinity
    let count = 0
    const { le: _, ...labels } = samples[at]!.labels
    for (; samples[at]?.name === `${name}_bucket`; at++) {
      const { le, ...others } = samples[at]!.labels
      assert.deepEqual(others, labels, name)
      const next = le === '+Inf' ? Infinity : Number(le)
      assert(next > bound && samples[at]!.value >= count, `${name}: buckets ascend`)
      bound = next
      count = samples[at]!.value
    }
    assert.equal(bound, Infinity, `${name}: the last bucket takes everything`)
    const [sum, total] = samples.slice(at, at + 2)
    assert.deepEqual([sum?.name, total?.name, total?.value], [`${name}_sum`, `${name}_count`, count])
    assert.deepEqual([sum?.labels, total?.labels], [labels, labels])
    at += 2
  }
}

const keyOf = (labels: Readonly<Record<string, string>>): string =>
  JSON.stringify(
    Object.keys(labels)
      .toSorted()
      .map((name) => [name, labels[name]]),
  )

const firstLineOf = (text: string): string => text.slice(0, text.indexOf('\n'))
