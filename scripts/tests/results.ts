/** What a run has found, and what it prints: a line of progress now and then, and at the end the failures and the totals. */
import type { Failure, Report } from './messages.ts'

const TESTS_A_LINE = 500
const OUTPUT_LINES_MAX = 40
const FAILURE_LINES_MAX = 100
const SLOWEST_SHOWN = 5
const BRIEF_LINES_MAX = 20
const BRIEF_CHARACTERS_MAX = 300
/** What a test can come to. */
const ENDS: ReadonlySet<Report['kind']> = new Set(['passed', 'failed', 'skipped', 'cancelled'])

/** What a file took. */
export interface Cost {
  readonly file: string
  readonly ms: number
  /** With the processes that it started. */
  readonly cpuMs: number
}

export class Results {
  readonly #print: (line: string) => void
  readonly #nowMs: () => number
  readonly #startedMs: number
  readonly #printsCosts: boolean
  readonly #failures: Failure[] = []
  readonly #cancelled = new Map<string, number>()
  /** The last lines that the process printed while the file ran. */
  readonly #output = new Map<string, string>()
  /** Diagnostics of tests, by place. */
  readonly #notes = new Map<string, string[]>()
  readonly #took: Cost[] = []
  #passed = 0
  #skipped = 0

  constructor(print: (line: string) => void, nowMs: () => number, printsCosts = false) {
    this.#print = print
    this.#printsCosts = printsCosts
    this.#nowMs = nowMs
    this.#startedMs = nowMs()
  }

  get failed(): number {
    return this.#failures.length + [...this.#cancelled.values()].reduce((sum, count) => sum + count, 0)
  }

  add(file: string, report: Report): void {
    if (report.kind === 'failed') this.#addFailure(report.failure)
    else if (report.kind === 'cancelled') this.#cancelled.set(file, (this.#cancelled.get(file) ?? 0) + 1)
    else if (report.kind === 'passed') this.#passed++
    else if (report.kind === 'skipped') this.#skipped++
    else if (report.kind === 'noted') this.#note(report.at, report.text)
    if (!ENDS.has(report.kind)) return
    const done = this.#passed + this.#skipped + this.failed
    if (done % TESTS_A_LINE === 0) this.#print(`${done} tests, ${this.failed} failed, ${this.#seconds()} s`)
  }

  #addFailure(failure: Failure): void {
    if (this.#failures.every(({ file }) => file !== failure.file)) this.#print(`${failure.file} fails`)
    this.#failures.push(failure)
  }

  #note(at: string, text: string): void {
    const notes = this.#notes.get(at)
    if (notes) notes.push(text)
    else this.#notes.set(at, [text])
  }

  addOutput(file: string, text: string): void {
    const lines = `${this.#output.get(file) ?? ''}${text}`.split('\n')
    this.#output.set(file, lines.slice(-OUTPUT_LINES_MAX).join('\n'))
  }

  ended(cost: Cost): void {
    this.#took.push(cost)
    if (this.#printsCosts) this.#print(`${inSeconds(cost.cpuMs)} s of processor, ${inSeconds(cost.ms)} s  ${cost.file}`)
  }

  printSummary(): void {
    const slowest = this.#took.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST_SHOWN)
    this.#print(`\n${this.#took.length} files in ${this.#seconds()} s; the slowest:`)
    for (const { file, ms } of slowest) this.#print(`  ${Math.round(ms / 1000)} s  ${file}`)
    for (const file of new Set([...this.#failures.map((failure) => failure.file), ...this.#cancelled.keys()])) {
      this.#printFailuresOf(file)
    }
    this.#printBriefly()
    const skipped = this.#skipped > 0 ? `, ${this.#skipped} skipped` : ''
    this.#print(`\n${this.#passed} passed, ${this.failed} failed${skipped}`)
  }

  #printFailuresOf(file: string): void {
    this.#print(`\nFAILED ${file}`)
    for (const { at, name, text } of this.#failures.filter((failure) => failure.file === file)) {
      this.#print(`\n  ${at === null ? name : `${at}  ${name}`}`)
      this.#print(indented(text.split('\n').slice(0, FAILURE_LINES_MAX)))
      for (const note of this.#notes.get(at ?? '') ?? []) this.#print(indented([`noted: ${note}`]))
    }
    const cancelled = this.#cancelled.get(file)
    if (cancelled) this.#print(`\n  ${cancelled} tests of it did not run, because a hook or a suite failed`)
    const output = this.#output.get(file)?.trim()
    if (output) this.#print(`\n  its process printed last:\n${indented(output.split('\n'))}`)
  }

  /** Once more, a line each: of a long log often only the end is shown. */
  #printBriefly(): void {
    if (this.#failures.length > 0) this.#print('\nIn short:')
    for (const { file, at, name, text } of this.#failures.slice(0, BRIEF_LINES_MAX)) {
      const [said] = text.split('\n', 1)
      this.#print(`  ${at ?? file}  ${name}: ${said!.slice(0, BRIEF_CHARACTERS_MAX)}`)
    }
  }

  #seconds(): number {
    return Math.round((this.#nowMs() - this.#startedMs) / 1000)
  }
}

const inSeconds = (ms: number): string => (ms / 1000).toFixed(1).padStart(5)
const indented = (lines: readonly string[]): string => lines.map((line) => `    ${line}`).join('\n')
