/** Turns a TypeScript source into the JavaScript that Node itself would run: spaces stand where types were. */
import { stripTypeScriptTypes } from 'node:module'

export function stripTypes(source: string): string {
  const emitWarning = Object.getOwnPropertyDescriptor(process, 'emitWarning')
  process.emitWarning = () => {} // Node 22 calls the function experimental, which means nothing to an operator
  try {
    return stripTypeScriptTypes(source)
  } finally {
    if (emitWarning) Object.defineProperty(process, 'emitWarning', emitWarning)
  }
}
