import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DocumentGate } from '../../../src/objectstore/s3/document-gate.ts'
import {
  COMPLETE_BODY_BYTES_MAX,
  DOCUMENTS_IN_WORK_BYTES_MAX,
  DOCUMENTS_WAITING_BYTES_MAX,
} from '../../../src/objectstore/s3/document-limits.ts'
import { nextTurn } from '../../support/next-turn.ts'

const LONG = COMPLETE_BODY_BYTES_MAX
const IN_WORK = DOCUMENTS_IN_WORK_BYTES_MAX / LONG
const WAITING = DOCUMENTS_WAITING_BYTES_MAX / LONG

/** Works behind a gate, which end when the test says so. */
class Works {
  readonly gate = new DocumentGate()
  readonly begun: number[] = []
  readonly ended: Promise<string>[] = []
  readonly #ends: ((error: Error | null) => void)[] = []

  begin(bytes: number): void {
    const number = this.ended.length
    const work = (): Promise<string> => {
      this.begun.push(number)
      return new Promise((resolve, reject) => {
        this.#ends[number] = (error) => (error === null ? resolve(`work ${number}`) : reject(error))
      })
    }
    this.ended.push(this.gate.runWithMemory(bytes, work))
  }

  async end(number: number, error: Error | null = null): Promise<void> {
    this.#ends[number]!(error)
    await this.ended[number]!.catch(() => {})
    await nextTurn()
  }
}

describe('long documents', () => {
  it('are in work up to a bound, then wait in turn, then are refused', async () => {
    const works = new Works()
    for (let i = 0; i < IN_WORK + WAITING; i++) works.begin(LONG)
    assert.equal(works.begun.length, IN_WORK)
    works.begin(1)
    await assert.rejects(works.ended.at(-1)!, { code: 'SlowDown' })
    for (let i = 0; i < IN_WORK + WAITING; i++) {
      await works.end(i)
      assert.equal(works.begun.length, Math.min(IN_WORK + i + 1, IN_WORK + WAITING))
    }
    assert.deepEqual(
      works.begun,
      Array.from({ length: IN_WORK + WAITING }, (_, i) => i),
    )
    works.begin(LONG)
    assert.equal(works.begun.length, IN_WORK + WAITING + 1, 'all room is given back')
  })

  it('do not pass those that wait, however short they are', async () => {
    const works = new Works()
    for (let i = 0; i < IN_WORK - 1; i++) works.begin(LONG)
    works.begin(LONG - 10)
    works.begin(LONG)
    works.begin(1)
    assert.equal(works.begun.length, IN_WORK)
    await works.end(0)
    assert.deepEqual(works.begun.slice(IN_WORK), [IN_WORK, IN_WORK + 1])
  })

  it('give back their room when the work fails', async () => {
    const works = new Works()
    for (let i = 0; i < IN_WORK + 1; i++) works.begin(LONG)
    await works.end(3, new Error('no part has it'))
    await assert.rejects(works.ended[3]!, /no part has it/)
    assert.equal(works.begun.length, IN_WORK + 1)
  })
})
