import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { GivenBack, MemoryTaken } from './support/given-back.ts'

const MIB = 1024 * 1024
const PROGRAM = fileURLToPath(new URL('support/given-back.ts', import.meta.url))

function isGivenBack({ during, after }: MemoryTaken): void {
  assert(during > 40 * MIB, `only ${during} bytes were taken`)
  assert(after < 24 * MIB, `${after} bytes are left`)
}

describe('memory of the C library', () => {
  const { ofLargePieces, whenAsked, kept } = JSON.parse(
    execFileSync(process.execPath, [PROGRAM], { encoding: 'utf8' }),
  ) as GivenBack // the program prints one

  it('is the system’s again when a large piece of it is freed, whatever was freed before', () =>
    isGivenBack(ofLargePieces))

  it('is the system’s again when it is asked for, though what is in use lies behind it', () => {
    isGivenBack(whenAsked)
    assert.equal(kept, 1)
  })
})
