import { FORMAT_JSON } from '../batch-frame.ts'
import type { StoredBatch } from '../batch-frame.ts'
import { JsonView } from '../search/json-view.ts'
import { ProtobufView } from '../search/protobuf-view.ts'
import type { RecordView } from '../search/record-view.ts'

/** Views of stored records, one at a time: the next one moves it. */
export class RecordViews {
  readonly #protobuf = new ProtobufView()
  readonly #json = new JsonView()
  #batch: StoredBatch | null = null
  #groupOfBatch = -1
  #group = 0

  of(batch: StoredBatch, recordNumber: number): RecordView {
    const place = batch.placeOf(recordNumber)
    if (batch !== this.#batch || place.group !== this.#groupOfBatch) this.#group++
    this.#batch = batch
    this.#groupOfBatch = place.group
    const view = batch.envelope.format === FORMAT_JSON ? this.#json : this.#protobuf
    view.seek(batch, place, this.#group)
    return view
  }
}
