/**
 * A file that a setting names.
 *
 * F1  no message and no cause of an error has a part of what it says: it may be a secret, in its place or not
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
    const problem = isMissing ? 'that does not exist' : 'that cannot be read'
    throw new StoreError('invalid', 'setting_file_unreadable', `names a file ${problem}`, { cause: error })
  }
}

/**
 * What reads the text of a file of JSON.
 *
 * @param bad of the mistakes, in words that go on after the setting's name: 'names a file …'
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
    const mistakes = describeProblems(check.errors(value), schema, 'the file')
    throw bad(`names a file with ${mistakes.length > 1 ? 'mistakes' : 'a mistake'}: ${mistakes.join(', and ')}`)
  }
}
