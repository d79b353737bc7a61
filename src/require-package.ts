/** Packages that are loaded by a call: those that are CommonJS, and those that many processes never need. */
import { createRequire } from 'node:module'

/**
 * Loads such a package. An `import` of CommonJS would first parse its whole text to find its exports, in every thread: that took a tenth of a
 * service's start.
 */
export const requirePackage: (name: string) => unknown = createRequire(import.meta.url)
