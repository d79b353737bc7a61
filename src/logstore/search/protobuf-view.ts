import { contentEnd, cursor, readTag, skipField } from '../../../native-free-codecs/protobuf-wire.ts'
import { SIGNAL_LOG } from '../batch-frame.ts'
import type { RecordPlace } from '../batch-frame.ts'
import type { AttributePlace, FieldName } from './names.ts'
import { LOG_FIELDS, SCOPE_FIELDS, SPAN_FIELDS, STATUS_FIELDS, durationOf, validId, whole } from './record-view.ts'
import type { FieldPlace, RecordView } from './record-view.ts'
import {
  BYTES,
  FIXED64,
  keyValuesHaveText,
  keyValuesPass,
  lastField,
  nextField,
  readFixed64,
  readKeyValues,
  readNumber,
  readText,
  readValueField,
  tagOf,
  valueHasText,
} from './protobuf-values.ts'
import type { TextTest } from './text-test.ts'
import { testUnder } from './values.ts'
import type { Value, ValueTest } from './values.ts'

const BODY = 5
const EVENT_NAME = 12
const LOG_ATTRIBUTES = 6
const SPAN_NAME = 5
const SPAN_ATTRIBUTES = 9
const SPAN_EVENTS = 11
const SPAN_STATUS = 15
const BODY_TAG = tagOf(BODY, BYTES)
const EVENT_NAME_TAG = tagOf(EVENT_NAME, BYTES)
const ATTRIBUTE_TAG = tagOf(LOG_ATTRIBUTES, BYTES)

/** A record of a protobuf batch, read in place: only what is asked for is decoded. */
export class ProtobufView implements RecordView {
  isLog = true
  group = -1
  #bytes: Buffer = Buffer.alloc(0)
  #place: RecordPlace | null = null
  readonly #names = new Map<string, Buffer>()

  /** @param group see RecordView */
  seek(body: Buffer, signal: number, place: RecordPlace, group: number): void {
    this.isLog = signal === SIGNAL_LOG
    this.#bytes = body
    this.#place = place
    this.group = group
  }

  hasText(test: TextTest, from = 0): boolean {
    const { recordStart: start, recordEnd: end } = this.#place!
    if (this.isLog) return this.#logHasText(start, end, test, from)
    return (
      this.#fieldHasText(start, end, SPAN_NAME, test, from) ||
      keyValuesHaveText(this.#bytes, start, end, SPAN_ATTRIBUTES, test, from) ||
      this.#statusHasText(start, end, test, from) ||
      this.#eventsHaveText(start, end, test, from)
    )
  }

  /** Finds all texts of a log in one pass, as most records are logs. */
  #logHasText(start: number, end: number, test: TextTest, from: number): boolean {
    const bytes = this.#bytes
    let body = -1
    let eventName = -1
    let attributes = -1
    for (let at = start; at < end;) {
      const tagAt = at
      const tag = readTag(bytes, at, end)
      const contentAt = cursor
      at = skipField(bytes, contentAt, end, tag, 0)
      if (tag === BODY_TAG) body = contentAt
      else if (tag === EVENT_NAME_TAG) eventName = contentAt
      else if (tag === ATTRIBUTE_TAG && attributes < 0) attributes = tagAt
    }
    if (body >= 0) {
      const bodyEnd = contentEnd(bytes, body, end)
      if (valueHasText(bytes, cursor, bodyEnd, test, from)) return true
    }
    if (eventName >= 0) {
      const nameEnd = contentEnd(bytes, eventName, end)
      if (test.inBytes(bytes, cursor, nameEnd, from)) return true
    }
    return attributes >= 0 && keyValuesHaveText(bytes, attributes, end, LOG_ATTRIBUTES, test, from)
  }

  #fieldHasText(start: number, end: number, field: number, test: TextTest, from: number): boolean {
    const at = lastField(this.#bytes, start, end, field, BYTES)
    if (at < 0) return false
    const textEnd = contentEnd(this.#bytes, at, end)
    return test.inBytes(this.#bytes, cursor, textEnd, from)
  }

  #statusHasText(start: number, end: number, test: TextTest, from: number): boolean {
    const at = lastField(this.#bytes, start, end, SPAN_STATUS, BYTES)
    if (at < 0) return false
    const statusEnd = contentEnd(this.#bytes, at, end)
    return this.#fieldHasText(cursor, statusEnd, 2, test, from)
  }

  #eventsHaveText(start: number, end: number, test: TextTest, from: number): boolean {
    const bytes = this.#bytes
    const tag = tagOf(SPAN_EVENTS, BYTES)
    for (let at = nextField(bytes, start, end, tag); at >= 0;) {
      const eventEnd = contentEnd(bytes, at, end)
      const eventStart = cursor
      const found =
        this.#fieldHasText(eventStart, eventEnd, 2, test, from) ||
        keyValuesHaveText(bytes, eventStart, eventEnd, 3, test, from)
      if (found) return true
      at = nextField(bytes, eventEnd, end, tag)
    }
    return false
  }

  hasAttribute(place: AttributePlace, name: string, test: ValueTest): boolean {
    const [start, end, field] = this.#attributesAt(place)
    return keyValuesPass(this.#bytes, start, end, field, this.#nameBytes(name), test)
  }

  attributes(place: AttributePlace): [name: string, value: Value][] {
    const [start, end, field] = this.#attributesAt(place)
    return readKeyValues(this.#bytes, start, end, field)
  }

  /** The bounds of the message that has the attributes, and the number of their field. */
  #attributesAt(place: AttributePlace): [start: number, end: number, field: number] {
    const at = this.#place!
    if (place === 'resource') return [at.resourceStart, at.resourceEnd, 1]
    if (place === 'scope') return [at.scopeStart, at.scopeEnd, 3]
    return [at.recordStart, at.recordEnd, this.isLog ? LOG_ATTRIBUTES : SPAN_ATTRIBUTES]
  }

  #nameBytes(name: string): Buffer {
    let bytes = this.#names.get(name)
    if (bytes === undefined) {
      bytes = Buffer.from(name)
      this.#names.set(name, bytes)
    }
    return bytes
  }

  hasInBody(path: string | null, test: ValueTest): boolean {
    if (!this.isLog) return false
    const { recordStart, recordEnd } = this.#place!
    const body = readValueField(this.#bytes, recordStart, recordEnd, BODY)
    return body !== null && testUnder(body, path, test)
  }

  field(name: FieldName): Value {
    const { recordStart, recordEnd, scopeStart, scopeEnd } = this.#place!
    const scope = SCOPE_FIELDS[name]
    if (scope !== undefined) return this.#read(scope, scopeStart, scopeEnd)
    const own = (this.isLog ? LOG_FIELDS : SPAN_FIELDS)[name]
    if (own !== undefined) return this.#read(own, recordStart, recordEnd)
    if (this.isLog) return null
    if (name === 'duration') return durationOf(this.field('start_time_unix_nano'), this.field('end_time_unix_nano'))
    const status = STATUS_FIELDS[name]
    if (status === undefined) return null
    const at = lastField(this.#bytes, recordStart, recordEnd, SPAN_STATUS, BYTES)
    if (at < 0) return status[2] === 'number' ? 0 : null
    const end = contentEnd(this.#bytes, at, recordEnd)
    return this.#read(status, cursor, end)
  }

  #read([field, , of]: FieldPlace, start: number, end: number): Value {
    const bytes = this.#bytes
    switch (of) {
      case 'number':
        return readNumber(bytes, start, end, field) ?? 0
      case 'text':
        return readText(bytes, start, end, field) || null
      case 'time': {
        const at = lastField(bytes, start, end, field, FIXED64)
        return at < 0 ? null : whole(readFixed64(bytes, at)) || null
      }
      case 'trace id':
      case 'span id': {
        const at = lastField(bytes, start, end, field, BYTES)
        if (at < 0) return null
        const idEnd = contentEnd(bytes, at, end)
        return validId(bytes.toString('hex', cursor, idEnd), of)
      }
    }
  }
}
