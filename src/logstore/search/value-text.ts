/** Values as surveys show them: texts that are equal when the values are, and that answers cut to what a person reads. */
import { hash } from 'node:crypto'
import { effectiveSeverity } from './matcher.ts'
import { UNSPECIFIED, enumName, fieldOf, resolveName } from './names.ts'
import type { AttributePlace, FieldName } from './names.ts'
import type { RecordView } from './record-view.ts'
import { KeyValues } from './values.ts'
import type { Value } from './values.ts'

/** Characters of a value that answers show. */
const SHOWN_LENGTH_MAX = 256

/** A text, a number or a boolean as it is written, bytes in Base64, a list or a map as JSON; null when there is no value. */
export function textOfValue(value: Value): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  return typeof value === 'object' ? JSON.stringify(plain(value)) : String(value)
}

function plain(value: Value): unknown {
  if (value instanceof KeyValues) return Object.fromEntries(value.entries.map(([key, inner]) => [key, plain(inner)]))
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  return typeof value === 'bigint' ? String(value) : value
}

/** A short key for a text: texts are equal when their keys are. */
export const keyOfText = (text: string): string =>
  text.length <= SHOWN_LENGTH_MAX ? text : `${text.slice(0, SHOWN_LENGTH_MAX)}${hash('sha256', text)}`

/** The text that a key stands for, as answers show it. */
export const valueInAnswer = (key: string): { readonly value: string; readonly value_is_cut?: true } =>
  key.length <= SHOWN_LENGTH_MAX ? { value: key } : { value: key.slice(0, SHOWN_LENGTH_MAX), value_is_cut: true }

const SEVERITIES = ['trace', 'debug', 'info', 'warn', 'error', 'fatal']
const NUMBERS_PER_SEVERITY = 4

/** Null: the record is a span. */
export function severityName(view: RecordView): string | null {
  const severity = effectiveSeverity(view)
  return severity === null ? null : nameOfSeverity(severity)
}

export function nameOfSeverity(severity: number): string {
  return SEVERITIES[Math.floor((severity - 1) / NUMBERS_PER_SEVERITY)] ?? UNSPECIFIED
}

/** The value of a field, enums by their names; null when the record has none. */
export const fieldText = (view: RecordView, field: FieldName): string | null => textOfField(field, view.field(field))

/** As `fieldText`, for the value that a view or a column gives. A column has empty texts, too, which stand for an absent field. */
export const textOfField = (field: FieldName, value: Value): string | null =>
  (typeof value === 'number' ? enumName(field, value) : null) ?? (textOfValue(value) || null)

/** Reads what a name of the search grammar stands for. An attribute is that of the record, else of its scope, else of its resource. */
export function readerOf(name: string): (view: RecordView) => string | null {
  if (name === 'severity') return severityName
  if (name === 'signal') return (view) => (view.isLog ? 'log' : 'trace')
  const named = resolveName(fieldOf(name))
  switch (named.kind) {
    case 'field':
      return (view) => fieldText(view, named.field)
    case 'body':
      return (view) => firstText((take) => view.hasInBody(named.path, take))
    case 'attribute':
      return attributeReader(named.of, named.key)
  }
}

/** Reads resource and scope once for consecutive records that share them. */
function attributeReader(places: readonly AttributePlace[], key: string): (view: RecordView) => string | null {
  const inRecord = places.includes('record')
  const shared = places.filter((place) => place !== 'record')
  let group = -1
  let ofGroup: string | null = null
  return (view) => {
    const own = inRecord ? attributeText(view, ['record'], key) : null
    if (own !== null || shared.length === 0) return own
    if (view.group !== group) {
      group = view.group
      ofGroup = attributeText(view, shared, key)
    }
    return ofGroup
  }
}

/** The value of an attribute in the first of these places that has it. */
export function attributeText(view: RecordView, places: readonly AttributePlace[], key: string): string | null {
  let text: string | null = null
  for (const place of places) text ??= firstText((take) => view.hasAttribute(place, key, take))
  return text
}

/** The text of the first value that `show` passes to `take`, without those that have no text. */
function firstText(show: (take: (value: Value) => boolean) => boolean): string | null {
  let text: string | null = null
  show((value) => (text = textOfValue(value)) !== null)
  return text
}
