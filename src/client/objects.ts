/** What callers without types may pass where an object belongs, told apart. */

export const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Of a class, like a Map: unlike an object of JSON, it may keep elsewhere what it stands for. */
export function isInstance(value: unknown): boolean {
  if (!isObject(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype !== null && Object.getPrototypeOf(prototype) !== null // it is null of plain objects, whatever their realm
}
