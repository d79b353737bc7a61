/** A TypeScript source as Node itself would run it, made without the warning that the function for it is experimental. */
import { stripTypeScriptTypes } from 'node:module'

/**
 * @param {string} source
 * @returns {string} with spaces where types were
 */
export function stripTypes(source) {
  const emitWarning = Object.getOwnPropertyDescriptor(process, 'emitWarning')
  process.emitWarning = () => {}
  try {
    return stripTypeScriptTypes(source)
  } finally {
    if (emitWarning) Object.defineProperty(process, 'emitWarning', emitWarning)
  }
}
