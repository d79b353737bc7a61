/** Query parameters that bound a page: absent and empty ones have their default. */
import { refuse } from '../refusals.ts'

type Query = ReadonlyMap<string, string>

const INTEGER_MAX = 2 ** 31 - 1
/** Most entries of a page of parts or uploads, even if more are asked for. */
const PAGE_MAX = 1000

/** @throws S3Error InvalidArgument */
export const pageMax = (query: Query, name: string): number => Math.min(integer(query, name, PAGE_MAX), PAGE_MAX)

/** @throws S3Error InvalidArgument */
export function integer(query: Query, name: string, byDefault: number): number {
  const text = query.get(name) ?? ''
  if (text === '') return byDefault
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Infinity
  if (value <= INTEGER_MAX) return value
  throw refuse('InvalidArgument', `Argument ${name} must be an integer between 0 and ${INTEGER_MAX}`, {
    fields: { ArgumentName: name, ArgumentValue: text.slice(0, 128) },
  })
}
