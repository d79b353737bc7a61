/** A file that a command was told to write. It is there whole or not at all, and only its owner can read it. */
import { randomBytes } from 'node:crypto'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { messageOf } from '../errors.ts'
import { usageFailure } from './failure.ts'

/** @returns the path in full. @throws CliFailure when it cannot be written */
export function writeOutput(flag: string, path: string, text: string): string {
  const full = resolve(path)
  const temporary = `${full}.${randomBytes(4).toString('hex')}.tmp`
  try {
    writeFileSync(temporary, text, { mode: 0o600, flag: 'wx' })
    renameSync(temporary, full)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw usageFailure(`${flag} ${full} cannot be written: ${messageOf(error)}`, 'Give a file that can be written.')
  }
  return full
}
