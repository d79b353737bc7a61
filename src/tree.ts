/**
 * The tree of which this file is a part: that of the sources in a checkout, `dist/` in a package. What is read at run time is found from its root.
 *
 * This module lies one folder below the root, also where a build has put it into another file (`scripts/build.ts`).
 */

/** @param path from the root; of a folder with a slash at its end */
export const treeFile = (path: string): URL => new URL(`../${path}`, import.meta.url)
