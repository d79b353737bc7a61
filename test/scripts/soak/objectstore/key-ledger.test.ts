/** What a key may have, when several clients look at it and do not all see the same parts. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Body } from '../../../../scripts/soak/objectstore/bodies.ts'
import { KeyLedger } from '../../../../scripts/soak/objectstore/key-ledger.ts'
import type { ExpectedObject, Look, Version } from '../../../../scripts/soak/objectstore/key-ledger.ts'

const body = new Body([Buffer.from('body')])
const withTag = (tag: string): ExpectedObject => ({
  body,
  etag: body.md5,
  contentType: 'text/plain',
  metadata: {},
  tags: { tag },
})

/** A look at everything except the tags. It sees that there is an object. */
const lookAtBody = (ledger: KeyLedger, from: Look): readonly Version[] =>
  ledger.noteSeen(from, 'the body', (object) => object !== null)
const lookAtTags = (ledger: KeyLedger, from: Look, tag: string): readonly Version[] =>
  ledger.noteSeen(from, `the tag ${tag}`, (object) => object?.tags['tag'] === tag)

describe('the ledger of a key of which nobody knows whether its last tags were set before the process was killed', () => {
  /** A ledger after a change of the tags without an answer. */
  function unsureOfTags(): { readonly ledger: KeyLedger; readonly before: Look } {
    const ledger = new KeyLedger('bucket', 'key')
    ledger.answered(ledger.ask(withTag('a')), 1)
    const before = ledger.look()
    ledger.ask(withTag('b'))
    return { ledger, before }
  }

  it('does not rule out what another one saw while this one waited for its answer', () => {
    const { ledger, before } = unsureOfTags()
    const check = lookAtBody(ledger, ledger.look())
    const tagged = lookAtTags(ledger, ledger.look(), 'b')
    ledger.settle(check.filter((version) => tagged.includes(version)))
    // Now the client that began before has its answer, which does not tell the two versions apart.
    ledger.settle(lookAtBody(ledger, before))
    assert.equal(ledger.known?.object?.tags['tag'], 'b')
    lookAtTags(ledger, ledger.look(), 'b')
  })

  it('rules out the tags that are not there, whichever they are', () => {
    for (const tag of ['a', 'b']) {
      const { ledger } = unsureOfTags()
      const seen = lookAtBody(ledger, ledger.look())
      const tagged = lookAtTags(ledger, ledger.look(), tag)
      ledger.settle(seen.filter((version) => tagged.includes(version)))
      assert.equal(ledger.known?.object?.tags['tag'], tag)
      const other = tag === 'a' ? 'b' : 'a'
      assert.throws(() => lookAtTags(ledger, ledger.look(), other), /bucket\/key shows\n {2}the tag/)
    }
  })

  it('says what was heard of the key when what is there was never asked for', () => {
    const { ledger } = unsureOfTags()
    assert.throws(
      () => ledger.noteSeen(ledger.look(), 'nothing', (object) => object === null),
      /should be one of\n {2}1: .*\n {2}2: .*\nThe read began when version 1 was the oldest possible\. .*\n.* requested 1: .*\n.* 1 was answered, sequence 1\n.* requested 2: /,
    )
  })
})
