type SourceReviver = (key: string, value: unknown, context: { readonly source: string }) => unknown

/** JSON.parse with the source text of numbers, which may say more than a double holds. */
// Node 22 passes the reviver the source text of a primitive (ECMAScript "JSON.parse source text access"); its types do not say so yet.
export const parseWithSource = JSON.parse as (text: string, reviver: SourceReviver) => unknown
