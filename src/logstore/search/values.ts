/** Values of attributes and fields, and the conditions on them. */
import { numberOf } from './expression.ts'
import type { Comparison, ValueCondition } from './expression.ts'
import { fold } from './words.ts'

/** An AnyValue of OTLP; whole numbers that are not exact as doubles are bigint. Of all conditions only `exists` matches bytes. */
export type Value = string | number | bigint | boolean | Uint8Array | readonly Value[] | KeyValues | null

/** Keys in their order; a key may be repeated. */
export class KeyValues {
  readonly entries: readonly (readonly [key: string, value: Value])[]

  constructor(entries: readonly (readonly [key: string, value: Value])[]) {
    this.entries = entries
  }
}

export type ValueTest = (value: Value) => boolean

export function valueTest(condition: ValueCondition): ValueTest {
  const test = scalarTest(condition)
  if (condition.kind === 'exists') return test // an empty list is there, too
  return function passes(value: Value): boolean {
    return Array.isArray(value) ? value.some(passes) : test(value)
  }
}

function scalarTest(condition: ValueCondition): ValueTest {
  switch (condition.kind) {
    case 'exists':
      return () => true
    case 'equals':
      return equals(condition.text, condition.number)
    case 'begins': {
      const { text } = condition
      return (value) => typeof value === 'string' && fold(value.slice(0, text.length)) === text
    }
    case 'compare': {
      const { by, number } = condition
      return (value) => {
        const given = typeof value === 'string' ? numberOf(value) : value
        return (typeof given === 'number' || typeof given === 'bigint') && compares(given, by, number)
      }
    }
  }
}

function equals(text: string, number: number | bigint | null): ValueTest {
  return (value) => {
    switch (typeof value) {
      case 'string':
        return value.length === text.length && fold(value) === text // no character folds into fewer or more
      case 'number':
      case 'bigint':
        return number !== null && compares(value, '<=', number) && compares(value, '>=', number)
      case 'boolean':
        return text === String(value)
      default:
        return false
    }
  }
}

function compares(value: number | bigint, by: Comparison, given: number | bigint): boolean {
  // A large double stands for several whole numbers, and equals each of them.
  const number = typeof value === 'number' ? Number(given) : given
  switch (by) {
    case '<':
      return value < number
    case '<=':
      return value <= number
    case '>':
      return value > number
    case '>=':
      return value >= number
  }
}

/**
 * Tests the values under a dotted path. A key may itself have dots, so every way to cut the path is tried.
 *
 * @param path null: the value itself. An empty path names an empty key
 */
export function testUnder(value: Value, path: string | null, test: ValueTest): boolean {
  if (path === null) return test(value)
  if (!(value instanceof KeyValues)) return false
  return value.entries.some(([key, inner]) => {
    const rest = restOfPath(path, key)
    return rest !== undefined && testUnder(inner, rest, test)
  })
}

/** The rest of a dotted path behind this key; null: the key is all of it; undefined: the path does not begin with the key. */
function restOfPath(path: string, key: string): string | null | undefined {
  if (path === key) return null
  return path[key.length] === '.' && path.startsWith(key) ? path.slice(key.length + 1) : undefined
}
