/** The line that shows a run is alive: rewritten every second on a terminal, printed every ten seconds elsewhere. */
import { formatCount, formatMegabytes, formatMs } from './format.ts'
import type { Measurements, SecondRow } from './measurements.ts'

const PLAIN_LINE_SECONDS = 10

export interface ProgressOutput {
  readonly isTerminal: boolean
  /** Width of the terminal; longer lines would wrap and could not be rewritten. */
  readonly columns: number
  write(text: string): void
}

export class Progress {
  readonly #output: ProgressOutput
  readonly #unit: string
  #shownWidth = 0
  #lines = 0

  constructor(output: ProgressOutput, unit: string) {
    this.#output = output
    this.#unit = unit
  }

  second(row: SecondRow, measured: Measurements): void {
    const line = progressLine(row, measured, this.#unit)
    if (this.#output.isTerminal) {
      const cut = line.slice(0, this.#output.columns - 1)
      this.#output.write(`\r${cut.padEnd(this.#shownWidth)}`)
      this.#shownWidth = cut.length
    } else if (++this.#lines % PLAIN_LINE_SECONDS === 0) {
      this.#output.write(`${line}\n`)
    }
  }

  /** Leaves the line, so that what follows begins on its own. */
  done(): void {
    if (this.#shownWidth > 0) this.#output.write('\n')
    this.#shownWidth = 0
  }
}

function progressLine(row: SecondRow, measured: Measurements, unit: string): string {
  const span = row.spanSeconds
  return [
    `${row.atSeconds.toFixed(0).padStart(4)} s`,
    `${formatCount(row.units / span)} ${unit}/s`,
    `${formatMegabytes(row.payloadBytes / span)} MB/s`,
    `${measured.inFlight} in flight`,
    `p50 ${formatMs(row.p50Ms)}`,
    `p99 ${formatMs(row.p99Ms)}`,
    `${formatCount(measured.errorCount)} errors`,
  ].join('  ')
}
