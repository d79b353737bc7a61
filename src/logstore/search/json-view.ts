import { SIGNAL_LOG } from '../batch-frame.ts'
import type { RecordPlace } from '../batch-frame.ts'
import { parseWithSource } from '../json-source.ts'
import type { AttributePlace, FieldName } from './names.ts'
import { LOG_FIELDS, SCOPE_FIELDS, SPAN_FIELDS, STATUS_FIELDS, durationOf, validId, whole } from './record-view.ts'
import type { FieldPlace, RecordView } from './record-view.ts'
import type { TextTest } from './text-test.ts'
import { utf8 } from './text-test.ts'
import { KeyValues, testUnder } from './values.ts'
import type { Value, ValueTest } from './values.ts'

type Members = Readonly<Record<string, unknown>>
const NONE: Members = {}

/** A record of a JSON batch. `seek` parses it; its resource and scope are parsed once for all of their records. */
export class JsonView implements RecordView {
  isLog = true
  group = -1
  #record: Members = NONE
  #scope: Members = NONE
  #resource: Members = NONE

  /** @param group see RecordView */
  seek(body: Buffer, signal: number, place: RecordPlace, group: number): void {
    this.isLog = signal === SIGNAL_LOG
    this.#record = membersOf(body, place.recordStart, place.recordEnd)
    if (group === this.group) return
    this.group = group
    this.#scope = membersOf(body, place.scopeStart, place.scopeEnd)
    this.#resource = membersOf(body, place.resourceStart, place.resourceEnd)
  }

  hasText(test: TextTest): boolean {
    const record = this.#record
    if (this.isLog) {
      const { body, eventName, attributes } = record
      return valueHasText(valueOf(body), test) || valueHasText(textOf(eventName), test) || listHasText(attributes, test)
    }
    const { name, status, attributes, events } = record
    return (
      valueHasText(textOf(name), test) ||
      listHasText(attributes, test) ||
      valueHasText(textOf(asMembers(status).message), test) ||
      asList(events).some((event) => {
        const { name, attributes } = asMembers(event)
        return valueHasText(textOf(name), test) || listHasText(attributes, test)
      })
    )
  }

  hasAttribute(place: AttributePlace, name: string, test: ValueTest): boolean {
    return testUnder(new KeyValues(this.attributes(place)), name, test)
  }

  attributes(place: AttributePlace): [name: string, value: Value][] {
    const owner = place === 'record' ? this.#record : place === 'scope' ? this.#scope : this.#resource
    return entriesOf(owner.attributes)
  }

  hasInBody(path: string | null, test: ValueTest): boolean {
    const body = this.isLog ? valueOf(this.#record.body) : null
    return body !== null && testUnder(body, path, test)
  }

  field(name: FieldName): Value {
    const scope = SCOPE_FIELDS[name]
    if (scope !== undefined) return readField(scope, this.#scope)
    const own = (this.isLog ? LOG_FIELDS : SPAN_FIELDS)[name]
    if (own !== undefined) return readField(own, this.#record)
    if (this.isLog) return null
    if (name === 'duration') return durationOf(this.field('start_time_unix_nano'), this.field('end_time_unix_nano'))
    const status = STATUS_FIELDS[name]
    return status === undefined ? null : readField(status, asMembers(this.#record.status))
  }
}

const EXACT_MEMBERS: ReadonlySet<string> = new Set([
  'intValue',
  'timeUnixNano',
  'observedTimeUnixNano',
  'startTimeUnixNano',
  'endTimeUnixNano',
])

/** Parses an object. Numbers that may not be exact as doubles keep the text in which they were written. */
function membersOf(body: Buffer, start: number, end: number): Members {
  if (end === 0) return NONE
  const value = parseWithSource(utf8(body, start, end), (key, value, context) =>
    typeof value === 'number' && EXACT_MEMBERS.has(key) ? context.source : value,
  )
  return asMembers(value)
}

const asMembers = (value: unknown): Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : NONE // just checked

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)

/** The text of a whole number, as JSON may write it: 1e3 is 1000. */
function wholeOf(value: unknown): number | bigint | null {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return null
  return /^-?[0-9]{1,20}$/.test(value) ? whole(BigInt(value)) : Number(value)
}

function readField([, member, of]: FieldPlace, owner: Members): Value {
  const value = owner[member]
  switch (of) {
    case 'number':
      return wholeOf(value) ?? 0
    case 'text':
      return textOf(value) || null
    case 'time':
      return wholeOf(value) || null
    case 'trace id':
    case 'span id':
      return validId(textOf(value), of)
  }
}

function valueOf(given: unknown): Value {
  const { stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue, bytesValue } = asMembers(given)
  if (typeof stringValue === 'string') return stringValue
  if (typeof boolValue === 'boolean') return boolValue
  if (intValue !== undefined && intValue !== null) return wholeOf(intValue)
  if (doubleValue !== undefined && doubleValue !== null) return Number(doubleValue)
  if (arrayValue !== undefined && arrayValue !== null) return asList(asMembers(arrayValue).values).map(valueOf)
  if (kvlistValue !== undefined && kvlistValue !== null) return new KeyValues(entriesOf(asMembers(kvlistValue).values))
  if (typeof bytesValue === 'string') return Buffer.from(bytesValue, 'base64')
  return null
}

const entriesOf = (list: unknown): [key: string, value: Value][] =>
  asList(list).map((pair) => {
    const { key, value } = asMembers(pair)
    return [textOf(key) ?? '', valueOf(value)]
  })

const listHasText = (list: unknown, test: TextTest): boolean =>
  asList(list).some((pair) => valueHasText(valueOf(asMembers(pair).value), test))

function valueHasText(value: Value, test: TextTest): boolean {
  if (typeof value === 'string') return test.inText(value)
  if (Array.isArray(value)) return value.some((one) => valueHasText(one, test))
  return value instanceof KeyValues && value.entries.some(([, inner]) => valueHasText(inner, test))
}
