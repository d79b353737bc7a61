/** Objects as JSON has them. */

/** An array is none. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** True for an instance of a class, like a Map: its content may be elsewhere than in its fields. */
export function isInstance(value: unknown): boolean {
  if (!isObject(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== null && Object.getPrototypeOf(prototype) !== null // plain objects have null there, in every realm
}
