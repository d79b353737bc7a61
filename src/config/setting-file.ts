/**
 * A file that a setting names.
 *
 * F1  no error, nor its cause, repeats a part of the file, which may hold a secret, even in the wrong place. The path is no secret
 */
import { readFileSync } from 'node:fs'
import type { Static, TSchema } from 'typebox'
import { schemaCheck } from '../schema-check.ts'
import { StoreError } from '../errors.ts'
import { describeProblems } from '../validation.ts'

/** @throws StoreError whose message continues the setting's name: 'names a file …' */
export function readSettingFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    throw new StoreError('invalid', 'setting_file_unreadable', namesUnreadable(path, isMissing), { cause: error })
  }
}

/** Continues the setting's name. A value that is a key and not the path of one is not shown. */
export function namesUnreadable(path: string, isMissing: boolean): string {
  const shown = /\p{Cc}|-----BEGIN/u.test(path) ? '' : `: ${path}`
  return `names a file that ${isMissing ? 'does not exist' : 'cannot be read'}${shown}`
}

/**
 * Makes a reader for the text of a JSON file.
 *
 * @param bad makes the error; the mistake continues the setting's name: 'names a file …'
 */
export function jsonFile<Schema extends TSchema>(
  schema: Schema,
  bad: (mistake: string) => StoreError,
): (text: string) => Static<Schema> {
  const check = schemaCheck(schema)
  return (text) => {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw bad('names a file that is not valid JSON') // without the cause, which quotes it (F1)
    }
    if (check.accepts(value)) return value
    throw bad(sentenceOf(describeProblems(check.errors(value), schema, 'the file')))
  }
}

/** What is wrong with an entry of a file, in words that begin with where it stands: 'keys.0.subject must …'. */
export class EntryMistake extends Error {}

/**
 * Reads the entries of a file, and tells the mistakes of all of them at once.
 *
 * @param bad makes the error, as for `jsonFile`
 * @param read throws EntryMistake
 */
export function readEntries<Entry, Result>(
  entries: readonly Entry[],
  bad: (mistake: string) => StoreError,
  read: (entry: Entry, index: number) => Result,
): readonly Result[] {
  const results: Result[] = []
  const mistakes: string[] = []
  for (const [index, entry] of entries.entries()) {
    try {
      results.push(read(entry, index))
    } catch (error) {
      if (!(error instanceof EntryMistake)) throw error
      mistakes.push(error.message)
    }
  }
  if (mistakes.length > 0) throw bad(sentenceOf(mistakes))
  return results
}

/** Continues the name of the setting. */
const sentenceOf = (mistakes: readonly string[]): string =>
  `names a file with ${mistakes.length > 1 ? 'mistakes' : 'a mistake'}: ${mistakes.join(', and ')}`
