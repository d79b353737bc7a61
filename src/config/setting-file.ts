/** The text of a file that a setting names. What it says is for whoever reads it. */
import { readFileSync } from 'node:fs'
import { StoreError } from '../errors.ts'

/** @throws StoreError that goes on after the setting's name: 'names a file …' */
export function readSettingFile(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    const problem = isMissing ? 'that does not exist' : 'that cannot be read'
    throw new StoreError('invalid', 'setting_file_unreadable', `names a file ${problem}`, { cause: error })
  }
}
