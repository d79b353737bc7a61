/** What the main thread and the decode lane say to each other arrives as it was written, up to the largest values that a tenant policy allows. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  ACCEPTED,
  NOT_PREPARED,
  OUTCOME_HEAD_BYTES,
  REFUSED,
  REQUEST_BYTES,
  readOutcomeHead,
  readRequest,
  writeOutcomeHead,
  writeRequest,
} from '../../../src/logstore/ingest/messages.ts'

const WORD_MAX = 0xffff_ffff
/** A policy file has no limit of tenants, nor of the credentials of one. */
const MANY = 100_000
const DAY_SECONDS = 86_400
const AT = 3

describe('a message between the main thread and the decode lane', () => {
  it('has every field of a request', () => {
    const request = {
      request: WORD_MAX,
      policyGeneration: WORD_MAX - 1,
      tenant: MANY,
      credential: MANY + 1,
      signal: 1,
      format: 2,
      source: 3,
      encoding: 4,
      bodyOffset: WORD_MAX - 2,
      bodyBytes: WORD_MAX - 3,
      receivedAtLow: WORD_MAX - 4,
      receivedAtHigh: WORD_MAX - 5,
      preparedSlot: NOT_PREPARED,
      ticket: 2 ** 31 - 1,
    }
    const bytes = Buffer.alloc(AT + REQUEST_BYTES)
    writeRequest(bytes, AT, request)
    assert.deepEqual(readRequest(bytes, AT), request)
  })

  it('has every field of an outcome', () => {
    const refused = {
      request: WORD_MAX,
      kind: REFUSED,
      refusal: 255,
      retryAfterSeconds: DAY_SECONDS,
      position: 0,
      records: 0,
      bytes: 0,
      collapsed: 0,
      tailBytes: WORD_MAX,
      generation: 0,
      rejected: 0,
    }
    const accepted = {
      ...refused,
      kind: ACCEPTED,
      refusal: 0,
      retryAfterSeconds: 0,
      position: Number.MAX_SAFE_INTEGER,
      records: WORD_MAX - 1,
      bytes: WORD_MAX - 2,
      collapsed: WORD_MAX - 3,
      generation: WORD_MAX - 4,
      rejected: WORD_MAX - 5,
    }
    for (const outcome of [refused, accepted]) {
      const bytes = Buffer.alloc(AT + OUTCOME_HEAD_BYTES)
      writeOutcomeHead(bytes, AT, outcome)
      assert.deepEqual(readOutcomeHead(bytes, AT), outcome)
    }
  })
})
