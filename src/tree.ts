/**
 * Finds the files that are read at run time, from the root of the tree that this file is in: the sources in a checkout, `dist/` in a package.
 *
 * This module lies one folder below the root, also where a build has put it into another file (`scripts/build.ts`).
 */

/** @param path from the root; a folder ends in a slash */
export const treeFile = (path: string): URL => new URL(`../${path}`, import.meta.url)
