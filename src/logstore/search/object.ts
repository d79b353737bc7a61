/** The search as programs write it: an object whose members must all hold. */
import { Type } from '../../schema.ts'
import type { Static } from 'typebox'
import { SEARCH_CONDITIONS_MAX, SEARCH_LENGTH_MAX, SearchError, numberOf } from './expression.ts'
import type { Search } from './expression.ts'
import { namedCondition } from './names.ts'
import { parseSearch } from './parse.ts'

const optional = <Schema extends Parameters<typeof Type.Optional>[0]>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]))

export const SearchObject = Type.Object(
  {
    text: optional(Type.String({ maxLength: SEARCH_LENGTH_MAX, description: 'an expression as in docs/search.md' })),
    attributes: optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]), {
        maxProperties: SEARCH_CONDITIONS_MAX,
        description: 'whole values by attribute name; the attribute may be of the record, its scope or its resource',
      }),
    ),
    severity_number_min: optional(Type.Integer({ minimum: 1, maximum: 24 })),
    signal: optional(Type.Union([Type.Literal('log'), Type.Literal('trace')])),
    span_name: optional(Type.String({ maxLength: SEARCH_LENGTH_MAX })),
    min_duration_nano: optional(Type.Union([Type.String({ pattern: '^[0-9]{1,20}$' }), Type.Integer({ minimum: 0 })])),
    status_code: optional(
      Type.Union([Type.Literal('unset'), Type.Literal('ok'), Type.Literal('error'), Type.Integer({ minimum: 0 })]),
    ),
  },
  { additionalProperties: false },
)

/** @throws SearchError */
export function searchOfObject(given: Static<typeof SearchObject>): Search {
  const { text = null, signal = null, attributes } = given
  const { severity_number_min: severity = null, status_code: code = null } = given
  const { span_name: spanName = null, min_duration_nano: duration = null } = given
  const of: Search[] = []
  const equals = (name: string, value: string): void => {
    if (value.length > SEARCH_LENGTH_MAX) throw new SearchError(`a value has at most ${SEARCH_LENGTH_MAX} characters`)
    of.push(namedCondition(name, { kind: 'equals', text: value }))
  }
  if (text !== null) of.push(parseSearch(text))
  for (const [name, value] of Object.entries(attributes ?? {})) {
    of.push({
      kind: 'or',
      of: ATTRIBUTE_PLACES.map((place) => namedCondition(`${place}${name}`, { kind: 'equals', text: String(value) })),
    })
  }
  if (severity !== null) of.push({ kind: 'severity', min: severity, max: Infinity })
  if (signal !== null) of.push({ kind: 'signal', signal })
  if (spanName !== null) equals('name', spanName)
  if (duration !== null) {
    const number = numberOf(String(duration))! // digits, by the schema
    of.push({ kind: 'name', name: 'duration', value: { kind: 'compare', by: '>=', number } })
  }
  if (code !== null) equals('status.code', String(code))
  return of.length === 0 ? { kind: 'all' } : of.length === 1 ? of[0]! : { kind: 'and', of }
}

/** These prefixes make a name that of an attribute, even if a field has the same name. */
const ATTRIBUTE_PLACES = ['attributes.', 'scope.attributes.', 'resource.attributes.']
