/**
 * The query of a request.
 *
 * Q1  a parameter is known to its route and comes at most once
 * Q2  what cannot be decoded is refused, never guessed
 */
import { Type } from '../../schema.ts'
import type { TSchema } from 'typebox'
import { unknownField } from '../../validation.ts'
import { PAGE_RECORDS_MAX } from '../limits.ts'
import { refuse } from '../refusals.ts'
import type { RefusalCode } from '../refusals.ts'

export type Query = ReadonlyMap<string, string>

/** What a route takes from its query. */
export interface QueryRules<Taken> {
  /** By name, for the document. */
  readonly parameters: Readonly<Record<string, TSchema>>
  take(query: Query): Taken
}

export const noQuery: QueryRules<null> = { parameters: {}, take: () => null }

const EMPTY: Query = new Map()
/** What the HTTP library makes of bytes that are not UTF-8. A client that means this character sends it in percent-encoding. */
const NOT_UTF8 = '\ufffd'

/**
 * @param raw  without the question mark
 * @param code of the refusals
 */
export function parseQuery(raw: string, { parameters }: QueryRules<unknown>, code: RefusalCode): Query {
  if (raw === '') return EMPTY
  const query = new Map<string, string>()
  for (const pair of raw.split('&')) {
    const equals = pair.indexOf('=')
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals))
    const value = decoded(equals < 0 ? '' : pair.slice(equals + 1))
    if (name === null || value === null) throw refuse(code, 'the query is not UTF-8 in percent-encoding')
    if (!Object.hasOwn(parameters, name)) throw refuse(code, unknownParameter(parameters))
    if (query.has(name)) throw refuse(code, `${name} is there twice`)
    query.set(name, value)
  }
  return query
}

export function unknownParameter(parameters: QueryRules<unknown>['parameters']): string {
  const known = Object.keys(parameters)
  return known.length === 0 ? 'the request takes no query parameters' : unknownField('the query', known, 'parameter')
}

function decoded(raw: string): string | null {
  if (raw.includes(NOT_UTF8)) return null
  const spaced = raw.includes('+') ? raw.replaceAll('+', ' ') : raw
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    return null // Q2
  }
}

/** `force`: the caller wants the change although it breaks promises. */
export const forceRules: QueryRules<boolean> = {
  parameters: {
    force: Type.Boolean({
      default: false,
      description: 'make the change even if something depends on what it removes',
    }),
  },
  take: (query) => booleanOf(query, 'force'),
}

/** Absent: false. */
export function booleanOf(query: Query, name: string): boolean {
  const value = query.get(name) ?? 'false'
  if (value === 'true' || value === 'false') return value === 'true'
  throw refuse('invalid_query', `${name} must be true or false`)
}

interface Bounds {
  readonly min: number
  readonly max: number
}

export const UNSIGNED: Bounds = { min: 0, max: Number.MAX_SAFE_INTEGER }
export const POSITIVE: Bounds = { min: 1, max: Number.MAX_SAFE_INTEGER }
export const PAGE_RECORDS: Bounds = { min: 1, max: PAGE_RECORDS_MAX }

export const integerSchema = (
  { min, max }: Bounds,
  more: { readonly default?: number; readonly description?: string } = {},
): TSchema => Type.Integer({ minimum: min, maximum: max, ...more })

/** Null: absent. @param code of the refusal of any other value */
export function integerOf(query: Query, name: string, { min, max }: Bounds, code: RefusalCode): number | null {
  const text = query.get(name)
  if (text === undefined) return null
  const value = /^[0-9]+$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  throw refuse(code, `${name} must be an integer from ${min} to ${max}`)
}
