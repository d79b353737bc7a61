import { FORMAT_JSON } from '../batch-frame.ts'
import type { RecordBatch } from '../batch-frame.ts'
import { JsonView } from '../search/json-view.ts'
import { ProtobufView } from '../search/protobuf-view.ts'
import type { RecordView } from '../search/record-view.ts'

/** Gives views of stored records. A view is valid until the next one is asked for. */
export class RecordViews {
  readonly #protobuf = new ProtobufView()
  readonly #json = new JsonView()
  #batch: RecordBatch | null = null
  #groupOfBatch = -1
  #group = 0

  of(batch: RecordBatch, recordNumber: number): RecordView {
    const place = batch.placeOf(recordNumber)
    if (batch !== this.#batch || place.group !== this.#groupOfBatch) this.#group++
    this.#batch = batch
    this.#groupOfBatch = place.group
    const { format, signal } = batch.envelopeOf(recordNumber)
    const view = format === FORMAT_JSON ? this.#json : this.#protobuf
    view.seek(batch.body, signal, place, this.#group)
    return view
  }
}
