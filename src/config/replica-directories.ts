/**
 * Whether the directories of a log are apart. The same directory under two names holds no second copy; a directory inside another is in the way of its
 * files.
 */
import { realpathSync } from 'node:fs'
import { dirname, relative, resolve, sep } from 'node:path'

/** @param directories absolute paths, whether they exist or not: nothing is created */
export function areDisjoint(directories: readonly string[]): boolean {
  const places = directories.map(placeOf)
  return places.every((one, index) => places.every((other, at) => at === index || !isWithin(one, other)))
}

/** @param dataDirectory name of its setting */
export const disjointRule = (dataDirectory: string): string =>
  `must name distinct directories, none of them ${dataDirectory}, and none inside another, with symbolic links followed`

/** The path without symbolic links, as far as it exists. */
function placeOf(path: string): string {
  for (let existing = path; ; existing = dirname(existing)) {
    try {
      return resolve(realpathSync(existing), relative(existing, path))
    } catch (error) {
      if (existing === dirname(existing)) throw error
    }
  }
}

/** True for the directory itself as well. */
const isWithin = (path: string, directory: string): boolean =>
  path === directory || path.startsWith(directory.endsWith(sep) ? directory : directory + sep)
