import assert from 'node:assert/strict'
import { test } from 'node:test'
import { status as grpcStatus } from '@grpc/grpc-js'
import { REFUSALS } from '../../src/logstore/refusals.ts'
import { codeOf, document, tableOf } from './markdown.ts'

test("the README's table of refusals is that of the code: kinds, statuses, what is retryable", () => {
  const shown = tableOf(document('README.md'), 'Refusals').map(([kind, status, grpc, retryable]) => [
    codeOf(kind),
    status,
    grpc,
    retryable,
  ])
  assert.deepEqual(
    shown,
    Object.entries(REFUSALS).map(([kind, { status, grpc, retryable }]) => [
      kind,
      String(status),
      grpcStatus[grpc],
      retryable ? 'yes' : 'no',
    ]),
  )
})
