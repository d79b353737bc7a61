import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ReadyDocuments } from '../../../src/objectstore/s3/ready-documents.ts'

const document = (bytes: number): Uint8Array => new Uint8Array(bytes)

/** Counts how often something is made of a document. */
function counting(bytesMax: number): { of: (document: Uint8Array) => number; made: () => number } {
  const ready = new ReadyDocuments<number>(bytesMax)
  let made = 0
  return { of: (each) => ready.of(each, () => (made += 1)), made: () => made }
}

describe('what was made of documents', () => {
  it('is made once as long as they have room, also of equal ones that are not the same', () => {
    const { of, made } = counting(10_000)
    const [one, other] = [document(1000), document(1000)]
    assert.deepEqual([of(one), of(other), of(one), of(other)], [1, 2, 1, 2])
    assert.equal(made(), 2)
  })

  it('goes with those that were asked for longest ago when there is no room for all', () => {
    const { of, made } = counting(10_000)
    const documents = Array.from({ length: 5 }, () => document(2000))
    for (const each of documents.slice(0, 3)) of(each)
    of(documents[0]!)
    of(documents[3]!) // four need more than 10 000 bytes with their overhead: the second one is evicted
    assert.equal(made(), 4)
    of(documents[0]!)
    of(documents[2]!)
    of(documents[3]!)
    assert.equal(made(), 4)
    of(documents[1]!)
    assert.equal(made(), 5)
  })

  it('of many short documents is bounded, too, and of one that is longer than all is not kept', () => {
    const { of, made } = counting(10_000)
    const short = Array.from({ length: 100 }, () => document(1))
    for (const each of short) of(each)
    for (const each of short.slice(-19)) of(each)
    assert.equal(made(), 100)
    of(short[0]!)
    assert.equal(made(), 101)
    const long = document(20_000)
    of(long)
    of(long)
    assert.equal(made(), 103)
  })

  it('is asked for again when it could not be made', () => {
    const ready = new ReadyDocuments<number>(10_000)
    const one = document(10)
    const fail = (): number => assert.fail('not now')
    assert.throws(() => ready.of(one, fail), /not now/)
    assert.equal(
      ready.of(one, () => 7),
      7,
    )
  })
})
