/** Objects as JSON has them. */

/** An array is none. */
export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Of a class, like a Map: it may keep elsewhere what it stands for. */
export function isInstance(value: unknown): boolean {
  if (!isObject(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== null && Object.getPrototypeOf(prototype) !== null // it is null of plain objects, whatever their realm
}
