/** Answers walking tasks on a thread of its own kind, one step each: the caller continues where the step ended. */
import { renderResult } from '../query/result.ts'
import { seenBundlesForCursor } from '../query/seen-bundles.ts'
import { refused } from '../query/segment-reader.ts'
import { PartTexts } from '../query/render/record.ts'
import type { QueryRefusal, QueryTask } from '../query/task.ts'
import { eventId } from './event-id.ts'
import { walkInLog } from './log-walk.ts'
import { datasetsOf, spansStep } from './spans.ts'
import { EMPTY_BODY } from './tasks.ts'
import type { ExportRequest, TailRequest, WalkAnswer, WalkBody, WalkTask } from './tasks.ts'
import { walkInTime } from './time-walk.ts'
import type { WalkParts, WalkedRecord } from './time-walk.ts'
import { traceText } from './trace.ts'

const encoder = new TextEncoder() // its result has its own buffer, which can be handed to another thread

export class Walker {
  readonly #parts: WalkParts

  constructor(parts: WalkParts) {
    this.#parts = parts
  }

  run(task: WalkTask): WalkAnswer {
    return this.#parts.reader.answer((): WalkAnswer => changed(task) ?? { kind: 'ok', body: this.#bodyOf(task) })
  }

  #bodyOf({ request, ...task }: WalkTask): WalkBody {
    switch (request.kind) {
      case 'export':
        return this.#exportLines({ ...task, request })
      case 'tail':
        return this.#tailEvents({ ...task, request })
      case 'trace':
        return traceText(this.#parts, { ...task, request })
      case 'datasets':
        return { ...EMPTY_BODY, names: datasetsOf(this.#parts, { ...task, request }) }
      case 'spans':
        return spansStep(this.#parts, { ...task, request })
    }
  }

  #exportLines(task: QueryTask<ExportRequest>): WalkBody {
    const writer = new LineWriter()
    const { textMax } = this.#parts.bounds
    const { quarantined, resume } = walkInTime(this.#parts, task, {
      make: (record) => writer.lineOf(record),
      take(line) {
        writer.add(line, '\n')
        return writer.characters >= textMax
      },
    })
    const quarantinedRanges = task.snapshot.quarantined.length
    return {
      ...EMPTY_BODY,
      text: writer.bytes(),
      records: writer.records,
      quarantined,
      quarantinedRanges,
      resume: resume && { ...resume, bundles: seenBundlesForCursor(task, resume.snapshot) },
    }
  }

  #tailEvents(task: QueryTask<TailRequest>): WalkBody {
    const { isCounted } = task.request
    const { logId } = task.snapshot
    const writer = new LineWriter()
    const { textMax } = this.#parts.bounds
    let counted = 0
    const { next, damaged, isAtEnd } = walkInLog(this.#parts, task, (record, position, recordNumber) => {
      if (isCounted) {
        counted++
        return false
      }
      const id = eventId(logId, { position, recordNumber: recordNumber + 1 })
      writer.add(`id: ${id}\ndata: `, writer.lineOf(record), '\n\n')
      return writer.characters >= textMax
    })
    const records = isCounted ? counted : writer.records
    return { ...EMPTY_BODY, text: writer.bytes(), records, quarantined: damaged, next, isAtEnd }
  }
}

/** Refuses to continue an export of a bucket whose bundles have changed: the lines would be of records that were never there at once. Null: no reason to. */
function changed({ request, ...task }: WalkTask): QueryRefusal | null {
  if (request.kind !== 'export' || request.resume === null) return null
  const { bundles, snapshot } = request.resume
  if (bundles === seenBundlesForCursor(task, snapshot)) return null
  return refused(
    'object_storage_read_failed',
    'the bundles in the bucket have changed since the export began: begin again',
  )
}

/** Records in the shape of a query's results, each in one line. */
class LineWriter {
  records = 0
  characters = 0
  readonly #texts: string[] = []
  readonly #parts = new PartTexts()

  lineOf({ batch, number, id, timeHigh, timeLow }: WalkedRecord): string {
    return inOneLine(renderResult(batch, number, id, timeHigh, timeLow, this.#parts))
  }

  /** A record, with what goes before and behind it. */
  add(...texts: readonly string[]): void {
    this.#texts.push(...texts)
    for (const text of texts) this.characters += text.length
    this.records++
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return encoder.encode(this.#texts.join(''))
  }
}

/** A JSON record is the text that was sent. In JSON a line break stands between values only, never in a string. */
const inOneLine = (json: string): string => json.replaceAll(/[\r\n]+/g, ' ')
