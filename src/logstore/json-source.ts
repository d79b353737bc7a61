type SourceReviver = (this: unknown, key: string, value: unknown, context: { readonly source: string }) => unknown

/** JSON.parse that passes its reviver the source text of a number, which may have more digits than a double holds. */
// Node 22 passes the reviver the source text of a primitive (ECMAScript "JSON.parse source text access"); its types do not say so yet.
export const parseWithSource = JSON.parse as (text: string, reviver: SourceReviver) => unknown

/** Whether the text of a JSON number is a whole number that a double may not hold. */
export const isInexactInteger = (value: number, source: string): boolean =>
  !Number.isSafeInteger(value) && /^-?[0-9]+$/.test(source)
