/** The text format of Prometheus, as far as an overview needs it: numbers by name, and by the first label where there is one. */

export class Sample {
  readonly atMs: number
  readonly #sums = new Map<string, number>()
  readonly #byLabel = new Map<string, Map<string, number>>()

  constructor(atMs: number) {
    this.atMs = atMs
  }

  add(name: string, label: string | null, value: number): void {
    this.#sums.set(name, (this.#sums.get(name) ?? 0) + value)
    if (label === null) return
    const labels = this.#byLabel.get(name) ?? new Map<string, number>()
    this.#byLabel.set(name, labels.set(label, (labels.get(label) ?? 0) + value))
  }

  /** Whether the service gave no numbers then. */
  get isEmpty(): boolean {
    return this.#sums.size === 0
  }

  /** The sum over all labels; null: the service does not give it. */
  value(name: string): number | null {
    return this.#sums.get(name) ?? null
  }

  byLabel(name: string): ReadonlyMap<string, number> {
    return this.#byLabel.get(name) ?? new Map()
  }
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(?:[^"}]*="((?:[^"\\]|\\.)*)")?.*\})? (\S+)/

/** @param keeps whether the metric of a name is wanted: histograms have hundreds of lines */
export function parseMetrics(text: string, atMs: number, keeps: (name: string) => boolean): Sample {
  const sample = new Sample(atMs)
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) continue
    const [, name, label, value] = LINE.exec(line) ?? []
    if (name === undefined || !keeps(name)) continue
    const number = Number(value)
    if (Number.isFinite(number)) sample.add(name, label ?? null, number)
  }
  return sample
}
