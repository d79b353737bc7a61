import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreError } from '../src/errors.ts'

test('a store error captures no stack, and the errors after it do', () => {
  const { stackTraceLimit } = Error
  const refused = new StoreError('notFound', 'gone', 'there is none', { cause: new Error('first') })
  assert.doesNotMatch(refused.stack ?? '', /\n/)
  assert.match(new Error('of ours').stack ?? '', /\n {4}at /)
  assert.equal(Error.stackTraceLimit, stackTraceLimit)
  assert.deepEqual([refused.code, refused.message, refused.cause instanceof Error], ['gone', 'there is none', true])
})
